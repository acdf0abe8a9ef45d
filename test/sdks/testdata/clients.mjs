// Runs client libraries against a gateway concurrently: each streams the reply to one message in a
// separate session. stdout has a line for each client's first text, and one for its result.
//
//   BASE=http://127.0.0.1:8081 TEXT=hello node clients.mjs [CLIENT...]
import { Agent, run, setDefaultOpenAIClient, setTracingDisabled } from "@openai/agents";
import { ChatOpenAI } from "@langchain/openai";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";
import OpenAI from "openai";

const apiKey = process.env.TOKEN ?? "none";
const baseURL = process.env.BASE + "/v1";
const model = "turnstile";
const input = process.env.TEXT;
const inSession = (session) => ({ "X-Turnstile-Session": session });

const openai = new OpenAI({ baseURL, apiKey });
setDefaultOpenAIClient(openai);
setTracingDisabled(true); // it would send traces to OpenAI

async function ai(model, options, add) {
  const result = streamText({ model, prompt: input, onError() {}, ...options });
  for await (const part of result.fullStream) {
    if (part.type === "text-delta") add(part.text);
    if (part.type === "error") throw part.error;
  }
}

const langchain = (fields) =>
  new ChatOpenAI({ model, apiKey, maxRetries: 2, ...fields, configuration: { baseURL, ...fields.configuration } });
const invoke = async (fields, add) => add((await langchain(fields).invoke(input)).text);
const stream = async (fields, add) => {
  for await (const chunk of await langchain(fields).stream(input)) add(chunk.text);
};

// Each adds text as it comes, and fails as a program of its user would.
const clients = {
  async "openai-responses"(session, add) {
    for await (const event of await openai.responses.create({ model, conversation: session, input, stream: true })) {
      if (event.type === "response.output_text.delta") add(event.delta);
    }
  },
  async "openai-responses-helper"(session, add) {
    const stream = openai.responses.stream({ model, conversation: session, input });
    stream.on("response.output_text.delta", (event) => add(event.delta));
    const response = await stream.finalResponse();
    if (response.status !== "completed") throw new Error("status " + response.status);
  },
  async "openai-chat"(session, add) {
    const chunks = await openai.chat.completions.create(
      { model, messages: [{ role: "user", content: input }], stream: true }, { headers: inSession(session) });
    for await (const chunk of chunks) add(chunk.choices[0]?.delta?.content ?? "");
  },
  async "openai-chat-helper"(session, add) {
    const stream = openai.chat.completions.stream({ model, messages: [{ role: "user", content: input }] }, { headers: inSession(session) });
    stream.on("content", add);
    await stream.finalContent();
  },
  "ai-responses": (session, add) =>
    ai(createOpenAI({ baseURL, apiKey }).responses(model), { providerOptions: { openai: { conversation: session } } }, add),
  "ai-chat": (session, add) => ai(createOpenAI({ baseURL, apiKey }).chat(model), { headers: inSession(session) }, add),
  "ai-compatible": (session, add) =>
    ai(createOpenAICompatible({ name: "turnstile", baseURL, apiKey })(model), { headers: inSession(session) }, add),
  "langchain-responses": (session, add) => stream({ useResponsesApi: true, modelKwargs: { conversation: session } }, add),
  "langchain-chat": (session, add) => stream({ configuration: { defaultHeaders: inSession(session) } }, add),
  async agents(session, add) {
    const result = await run(new Agent({ name: "turnstile", model }), input, { stream: true, conversationId: session });
    for await (const piece of result.toTextStream()) add(piece);
    await result.completed;
  },
};

// The same without a stream.
const provider = createOpenAI({ baseURL, apiKey });
const generate = async (model, options, add) => add((await generateText({ model, prompt: input, ...options })).text);
Object.assign(clients, {
  async "openai-chat-whole"(session, add) {
    const chat = await openai.chat.completions.create({ model, messages: [{ role: "user", content: input }] }, { headers: inSession(session) });
    add(chat.choices[0].message.content);
  },
  async "openai-responses-keyed"(session, add) { // may be repeated
    const headers = { "Idempotency-Key": session };
    add((await openai.responses.create({ model, conversation: session, input }, { headers })).output_text);
  },
  "ai-responses-whole": (session, add) =>
    generate(provider.responses(model), { providerOptions: { openai: { conversation: session } } }, add),
  "ai-chat-whole": (session, add) => generate(provider.chat(model), { headers: inSession(session) }, add),
  "ai-compatible-whole": (session, add) =>
    generate(createOpenAICompatible({ name: "turnstile", baseURL, apiKey })(model), { headers: inSession(session) }, add),
  "langchain-responses-whole": (session, add) => invoke({ useResponsesApi: true, modelKwargs: { conversation: session } }, add),
  "langchain-chat-whole": (session, add) => invoke({ configuration: { defaultHeaders: inSession(session) } }, add),
  async "agents-whole"(session, add) {
    add((await run(new Agent({ name: "turnstile", model }), input, { conversationId: session })).finalOutput);
  },
});

const tell = (line) => console.log(JSON.stringify(line));
const chosen = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(clients);
await Promise.all(chosen.map(async (client) => {
  let text = "";
  const add = (piece) => {
    if (text === "" && piece) tell({ client, began: true });
    text += piece;
  };
  try {
    await clients[client](client, add);
    tell({ client, text });
  } catch (problem) {
    tell({ client, text, error: String(problem?.message ?? problem) || "an error" });
  }
}));

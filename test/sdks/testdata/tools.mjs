// Runs client libraries with their own tools, instructions, history and JSON schemas against a gateway
// concurrently. stdout has a line for each one's result: the final text, or the parsed object.
//
//   BASE=http://127.0.0.1:8081 node tools.mjs [CLIENT...]
import {
  Agent, OpenAIChatCompletionsModel, MemorySession, run, setDefaultOpenAIClient, setTracingDisabled, tool as agentTool,
} from "@openai/agents";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent, tool as langchainTool } from "langchain";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { convertToModelMessages, generateObject, generateText, isStepCount, streamText, tool as aiTool } from "ai";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const apiKey = process.env.TOKEN ?? "none";
const baseURL = process.env.BASE + "/v1";
const model = "m";
const input = "How warm is it in Rome?";
const instructions = "Be brief.";
const inSession = (session) => ({ "X-Turnstile-Session": session });

const openai = new OpenAI({ baseURL, apiKey });
setDefaultOpenAIClient(openai);
setTracingDisabled(true); // it would send traces to OpenAI

const City = z.object({ city: z.string() });
const Weather = z.object({ city: z.string(), degrees: z.number() });
const degrees = ({ city }) => (city === "Rome" ? "21" : "unknown");
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const functionTool = { type: "function", name: "weather", description: "The degrees in a city.", parameters, strict: true };
const chatTool = { type: "function", function: { name: "weather", description: "The degrees in a city.", parameters } };
const outputs = (items) =>
  items.filter((i) => i.type === "function_call")
    .map((i) => ({ type: "function_call_output", call_id: i.call_id, output: degrees(JSON.parse(i.arguments)) }));

const agentsTools = [agentTool({ name: "weather", description: "The degrees in a city.", parameters: City, execute: degrees })];
const weatherAgent = (fields) => new Agent({ name: "Weather", model, instructions, tools: agentsTools, ...fields });

const lcTools = [langchainTool(degrees, { name: "weather", description: "The degrees in a city.", schema: City })];
const langchain = (fields) => new ChatOpenAI({ model, apiKey, ...fields, configuration: { baseURL, ...fields?.configuration } });
const ask = async (llm) => {
  const result = await createAgent({ model: llm, tools: lcTools, systemPrompt: instructions }).invoke({ messages: [{ role: "user", content: input }] });
  return result.messages.at(-1).text;
};
const structured = async (llm, method) => JSON.stringify(await llm.withStructuredOutput(Weather, { name: "weather", method }).invoke(input));

const provider = createOpenAI({ baseURL, apiKey });
const compatible = createOpenAICompatible({ name: "turnstile", baseURL, apiKey, supportsStructuredOutputs: true });
const aiTools = { weather: aiTool({ description: "The degrees in a city.", inputSchema: City, execute: async (args) => degrees(args) }) };
const generate = async (model, options) =>
  (await generateText({ model, prompt: input, system: instructions, tools: aiTools, stopWhen: isStepCount(3), ...options })).text;
const stream = async (model, options) => {
  const result = streamText({ model, prompt: input, system: instructions, tools: aiTools, stopWhen: isStepCount(3), onError() {}, ...options });
  let text = "";
  for await (const part of result.fullStream) {
    if (part.type === "text-delta") text += part.text;
    if (part.type === "error") throw part.error;
  }
  return text;
};
const object = async (model, options) => JSON.stringify((await generateObject({ model, prompt: input, schema: Weather, ...options })).object);

// What a page with useChat has sent: the user's words, a tool that was used, its output.
const uiMessages = [
  { id: "1", role: "user", parts: [{ type: "text", text: input }] },
  {
    id: "2", role: "assistant", parts: [
      { type: "step-start" },
      { type: "tool-weather", toolCallId: "call_ui", state: "output-available", input: { city: "Rome" }, output: "21" },
      { type: "text", text: "It is 21." },
    ],
  },
  { id: "3", role: "user", parts: [{ type: "text", text: "Repeat the result." }] },
];

const clients = {
  async "openai-responses"(session) {
    const first = await openai.responses.create({ model, conversation: session, instructions, input, tools: [functionTool] });
    return (await openai.responses.create({ model, previous_response_id: first.id, instructions, input: outputs(first.output), tools: [functionTool] })).output_text;
  },
  async "openai-responses-stream"(session) {
    const made = (body) => openai.responses.stream({ model, conversation: session, instructions, tools: [functionTool], ...body }).finalResponse();
    return (await made({ input: outputs((await made({ input })).output) })).output_text;
  },
  async "openai-responses-history"() {
    const all = [{ role: "user", content: input }];
    const first = await openai.responses.create({ model, instructions, input: all, tools: [functionTool], store: false });
    all.push(...first.output, ...outputs(first.output));
    return (await openai.responses.create({ model, instructions, input: all, tools: [functionTool], store: false })).output_text;
  },
  async "openai-responses-parse"() {
    return JSON.stringify((await openai.responses.parse({ model, input, text: { format: zodTextFormat(Weather, "weather") } })).output_parsed);
  },
  async "openai-chat"() {
    const messages = [{ role: "system", content: instructions }, { role: "user", content: input }];
    const chat = () => openai.chat.completions.create({ model, messages, tools: [chatTool] });
    const { message } = (await chat()).choices[0];
    messages.push(message, ...message.tool_calls.map((c) => ({ role: "tool", tool_call_id: c.id, content: degrees(JSON.parse(c.function.arguments)) })));
    return (await chat()).choices[0].message.content;
  },
  async "openai-chat-run-tools"(session) {
    return openai.chat.completions.runTools(
      {
        model, messages: [{ role: "system", content: instructions }, { role: "user", content: input }],
        tools: [{ type: "function", function: { ...chatTool.function, function: degrees, parse: JSON.parse } }],
      },
      { headers: inSession(session) }).finalContent();
  },
  async "openai-chat-run-tools-stream"() {
    return openai.chat.completions.runTools({
      model, stream: true, messages: [{ role: "system", content: instructions }, { role: "user", content: input }],
      tools: [{ type: "function", function: { ...chatTool.function, function: degrees, parse: JSON.parse } }],
    }).finalContent();
  },
  async "openai-chat-parse"() {
    const chat = await openai.chat.completions.parse({ model, messages: [{ role: "user", content: input }], response_format: zodResponseFormat(Weather, "weather") });
    return JSON.stringify(chat.choices[0].message.parsed);
  },

  agents: async () => (await run(weatherAgent(), input)).finalOutput,
  "agents-conversation": async (session) => (await run(weatherAgent(), input, { conversationId: session })).finalOutput,
  async "agents-stream"() {
    const result = await run(weatherAgent(), input, { stream: true });
    let text = "";
    for await (const piece of result.toTextStream()) text += piece;
    await result.completed;
    return text;
  },
  "agents-chat": async () => (await run(weatherAgent({ model: new OpenAIChatCompletionsModel(openai, model) }), input)).finalOutput,
  "agents-handoff": async () =>
    (await run(Agent.create({ name: "Desk", model, instructions: "Hand over.", handoffs: [weatherAgent()] }), input)).finalOutput,
  async "agents-session"() {
    const session = new MemorySession();
    await run(weatherAgent(), input, { session });
    return (await run(weatherAgent(), "Repeat the result.", { session })).finalOutput;
  },
  "agents-output": async () => JSON.stringify((await run(weatherAgent({ tools: [], outputType: Weather }), input)).finalOutput),

  "langchain-responses": () => ask(langchain({ useResponsesApi: true })),
  "langchain-responses-conversation": (session) => ask(langchain({ useResponsesApi: true, modelKwargs: { conversation: session } })),
  "langchain-chat": () => ask(langchain()),
  "langchain-chat-session": (session) => ask(langchain({ configuration: { defaultHeaders: inSession(session) } })),
  "langchain-structured": () => structured(langchain(), "jsonSchema"),
  "langchain-structured-function": () => structured(langchain(), "functionCalling"),
  "langchain-structured-responses": () => structured(langchain({ useResponsesApi: true }), "jsonSchema"),

  "ai-responses-stored": () => generate(provider.responses(model)),
  async "ai-responses-next"() {
    const messages = [{ role: "user", content: input }];
    messages.push(...(await generateText({ model: provider.responses(model), messages, system: instructions, tools: aiTools, stopWhen: isStepCount(3) })).responseMessages);
    return generate(provider.responses(model), { prompt: undefined, messages: [...messages, { role: "user", content: "Repeat the result." }] });
  },
  async "ai-responses-previous"() {
    const first = await openai.responses.create({ model, input, text: { format: zodTextFormat(Weather, "weather") } });
    return generate(provider.responses(model), { providerOptions: { openai: { previousResponseId: first.id } } });
  },
  "ai-responses": () => generate(provider.responses(model), { providerOptions: { openai: { store: false } } }),
  "ai-responses-conversation": (session) => generate(provider.responses(model), { providerOptions: { openai: { conversation: session } } }),
  "ai-responses-stream": () => stream(provider.responses(model), { providerOptions: { openai: { store: false } } }),
  "ai-chat": () => generate(provider.chat(model)),
  "ai-chat-session": (session) => generate(provider.chat(model), { headers: inSession(session) }),
  "ai-chat-stream": () => stream(provider.chat(model)),
  "ai-compatible": () => generate(compatible(model)),
  "ai-object-responses": () => object(provider.responses(model)),
  "ai-object-chat": () => object(provider.chat(model)),
  "ai-object-compatible": () => object(compatible(model)),
  "ai-use-chat": async () =>
    stream(provider.chat(model), { prompt: undefined, messages: await convertToModelMessages(uiMessages) }),
  "ai-use-chat-responses": async () =>
    stream(provider.responses(model), {
      prompt: undefined, messages: await convertToModelMessages(uiMessages), providerOptions: { openai: { store: false } },
    }),
};

const tell = (line) => console.log(JSON.stringify(line));
const chosen = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(clients);
await Promise.all(chosen.map(async (client) => {
  try {
    tell({ client, text: await clients[client](client) });
  } catch (problem) {
    tell({ client, error: String(problem?.message ?? problem) || "an error" });
  }
}));

// Uses conversations as programs for OpenAI do, and prints a line of JSON for each step: its name, and what came of it.
//
//   BASE=http://127.0.0.1:8081 node conversations.mjs
import { Agent, OpenAIConversationsSession, run, setDefaultOpenAIClient, setTracingDisabled } from "@openai/agents";
import OpenAI from "openai";

const openai = new OpenAI({ baseURL: process.env.BASE + "/v1", apiKey: "none" });
setDefaultOpenAIClient(openai);
setTracingDisabled(true);

async function step(name, does) {
  let result;
  try {
    result = await does();
  } catch (e) {
    result = `${e.status} ${e.code} ${e.message}`;
  }
  console.log(JSON.stringify({ client: name, text: String(result) }));
}
const all = async (list) => {
  const items = [];
  for await (const item of list) items.push(item);
  return items.map((i) => `${i.role ?? i.type} ${i.content?.[0].text ?? i.name}`).join(", ");
};

const { id } = await openai.conversations.create({ items: [] });
let response;
await step("models.retrieve", async () => (await openai.models.retrieve("echo")).id);
await step("models.retrieve, unknown", () => openai.models.retrieve("gpt-4.1"));
await step("conversations.retrieve", async () => (await openai.conversations.retrieve(id)).id === id);
await step("responses.create", async () => {
  response = await openai.responses.create({ model: "echo", conversation: id, input: "tool=look hello" });
  return response.output_text;
});
await step("inputItems.list", () => all(openai.responses.inputItems.list(response.id)));
await step("items.list", () => all(openai.conversations.items.list(id, { order: "asc", limit: 1 })));
await step("items.retrieve", async () => {
  const item = await openai.conversations.items.retrieve(response.output[0].id, { conversation_id: id });
  return JSON.stringify(item) === JSON.stringify(response.output[0]);
});
await step("items.create", () => openai.conversations.items.create(id, { items: [{ role: "user", content: "x" }] }));
await step("update", () => openai.conversations.update(id, { metadata: { a: "b" } }));
await step("create with metadata", () => openai.conversations.create({ metadata: { a: "b" } }));

const agent = new Agent({ name: "turnstile", model: "echo" });
await step("run with conversationId", async () => (await run(agent, "again", { conversationId: id })).finalOutput);
const session = new OpenAIConversationsSession({ client: openai, conversationId: id });
await step("session.getItems", async () => (await session.getItems()).length);
await step("session.getItems, the last", async () => (await session.getItems(1))[0].content[0].text);
await step("run with a session", () => run(agent, "and again", { session: new OpenAIConversationsSession({ client: openai }) }));
await step("session.popItem", () => session.popItem());

await step("responses.delete", async () => (await openai.responses.delete(response.id)).deleted);
await step("responses.retrieve, deleted", () => openai.responses.retrieve(response.id));
await step("session.clearSession", async () => {
  for (;;) { // its worker may hold it for a moment
    try {
      return await session.clearSession();
    } catch (e) {
      if (e.code !== "busy") throw e;
    }
  }
});
await step("conversations.retrieve, deleted", () => openai.conversations.retrieve(id));
await step("conversations.delete", async () => (await openai.conversations.delete((await openai.conversations.create()).id)).deleted);

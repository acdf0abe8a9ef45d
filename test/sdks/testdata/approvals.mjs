// Decides an agent's questions as a program for OpenAI does: in an open stream, in a stream of the decision, and without
// one. Prints a line for each with the response's text.
//
//   BASE=http://127.0.0.1:8081 node approvals.mjs
import OpenAI from "openai";

const openai = new OpenAI({ baseURL: process.env.BASE + "/v1", apiKey: "none", maxRetries: 0 });
const model = "turnstile";
const ask = { model, input: process.env.TEXT };
const requested = (item) => item?.type === "mcp_approval_request";
const decision = (response, item, approve) => ({
  model, previous_response_id: response, input: [{ type: "mcp_approval_response", approval_request_id: item.id, approve, reason: "so" }],
});

// polled waits until a response in the background has a question.
async function polled() {
  const { id } = await openai.responses.create({ ...ask, background: true });
  for (;;) {
    const response = await openai.responses.retrieve(id);
    const item = response.output.find(requested);
    if (item) return [id, item];
    if (response.status === "completed") throw new Error("it has asked nothing");
    await new Promise((next) => setTimeout(next, 50));
  }
}

const programs = {
  async "in-a-stream"() {
    const stream = openai.responses.stream({ ...ask });
    let id;
    const decisions = [];
    for await (const event of stream) {
      if (event.type === "response.created") id = event.response.id;
      if (event.type !== "response.output_item.done" || !requested(event.item)) continue;
      if (event.item.name !== "pay" || event.item.server_label !== "agent") throw new Error(JSON.stringify(event.item));
      decisions.push(openai.responses.create({ ...decision(id, event.item, true), background: true }));
    }
    await Promise.all(decisions);
    const response = await stream.finalResponse();
    if (response.output.some(requested)) throw new Error("a decided question is in " + JSON.stringify(response.output));
    return response.output_text;
  },
  async "without-a-stream"() {
    const [id, item] = await polled();
    const response = await openai.responses.create(decision(id, item, false));
    if (response.id !== id || response.status !== "completed") throw new Error(JSON.stringify(response));
    return response.output_text;
  },
  async "with-a-stream"() {
    const [id, item] = await polled();
    const response = await openai.responses.stream(decision(id, item, true)).finalResponse();
    const again = await openai.responses.create(decision(id, item, true)).catch((e) => e.code);
    if (again !== "no_question") throw new Error("decided twice: " + again);
    return response.output_text;
  },
};

await Promise.all(Object.entries(programs).map(async ([client, run]) => {
  try {
    console.log(JSON.stringify({ client, text: await run() }));
  } catch (problem) {
    console.log(JSON.stringify({ client, error: String(problem?.message ?? problem) }));
  }
}));

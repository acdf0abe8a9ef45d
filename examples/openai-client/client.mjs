// A client of Turnstile's gateway with OpenAI's SDK, unchanged but for its base URL and its key.
//
//   npm install
//   OPENAI_BASE_URL=http://127.0.0.1:8081/v1 OPENAI_API_KEY=TOKEN node client.mjs
//
// The SDK itself reads these two names. All other examples read TURNSTILE_URL, without the /v1, and TURNSTILE_TOKEN.
// A second URL in ELSEWHERE is another gateway, which takes over when the first one is gone.
import OpenAI from "openai";

const here = new OpenAI({ apiKey: process.env.OPENAI_API_KEY ?? "none" });
const elsewhere = new OpenAI({ apiKey: here.apiKey, baseURL: process.env.ELSEWHERE ?? here.baseURL });
const conversation = `example-${Date.now()}`;

// Create, and continue.
const first = await here.responses.create({ model: "echo", conversation, input: "hello" });
console.log("created:", first.output_text);
const second = await here.responses.create({ model: "echo", previous_response_id: first.id, input: "and again" });
console.log("continued:", second.output_text);

// In the background, and poll.
let polled = await here.responses.create({ model: "echo", conversation, input: "sleep=1s later", background: true });
while (polled.status === "queued" || polled.status === "in_progress") {
  await new Promise((wake) => setTimeout(wake, 200));
  polled = await here.responses.retrieve(polled.id);
}
console.log("polled:", polled.output_text);

// Cancel one that runs.
const long = await here.responses.create({ model: "echo", conversation, input: "sleep=1h never", background: true });
console.log("cancelled:", (await here.responses.cancel(long.id)).status);

// Chat Completions, as a stream.
const chat = await here.chat.completions.create({
  model: "echo", stream: true, messages: [{ role: "user", content: "stream=3 a word or two" }],
});
let words = "";
for await (const chunk of chat) words += chunk.choices[0]?.delta?.content ?? "";
console.log("chat:", words);

// Stream. If the gateway goes away, continue at another one after the last event.
let events = await here.responses.create({
  model: "echo", conversation, stream: true, input: "stream=20 tick=150ms a reply that takes its time to arrive",
});
let id, last, text = "", resumed = 0;
for (let over = false; !over; ) {
  try {
    for await (const event of events) {
      if (last !== undefined && event.sequence_number <= last) throw new Error(`event ${last} came again`);
      last = event.sequence_number;
      id ??= event.response?.id;
      if (event.type === "response.in_progress") text = ""; // the turn is run again
      if (event.type === "response.output_text.delta") {
        text += event.delta;
        console.log("delta:", event.delta);
      }
      over = event.type === "response.completed";
      if (over) console.log("streamed:", text, "|", event.response.output_text ?? textOf(event.response), "| resumed", resumed);
    }
    if (!over) throw new Error("the stream ended early");
  } catch (problem) {
    if (id === undefined || resumed++ > 3) throw problem;
    console.log("resume behind", last);
    events = await elsewhere.responses.retrieve(id, { stream: true, starting_after: last });
  }
}

function textOf(response) {
  return response.output.flatMap((item) => item.content ?? []).map((part) => part.text).join("");
}

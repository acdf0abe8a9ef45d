// What the clients in JavaScript share: the job, the words of the parent, the handler that records, and
// the senders. client.go, recorder.go and bench/internal/lab have the same in Go.
import { createInterface } from "node:readline";

export const job = JSON.parse(process.env.TURNSTILE_BENCH_CHILD);
const { Sessions: sessions, Each: each } = job.shape;
const senders = 16; // as lab.Parallel

export const name = (session) => `s${session}`;

let accepted = 0;
const steps = [];
const ended = new Set();
let all;
const handled = new Promise((resolve) => (all = resolve));

// handle records that it began and ended with a message. Between the two steps others may run, so that an
// overlap can be seen.
export async function handle({ session, sequence }) {
  steps.push({ s: session, q: sequence });
  await undefined;
  steps.push({ s: session, q: sequence, e: true });
  ended.add(`${session} ${sequence}`);
  if (ended.size === sessions * each) all();
}

// parallel calls send for each message, a session's in order.
async function parallel(send) {
  await Promise.all(
    Array.from({ length: senders }, async (_, sender) => {
      for (let session = sender; session < sessions; session += senders)
        for (let sequence = 0; sequence < each; sequence++) {
          await send(session, { session, sequence, text: job.text });
          accepted++;
        }
    }),
  );
}

const microseconds = () => {
  const { user, system } = process.cpuUsage();
  return user + system;
};
const nanoseconds = (since) => Math.round((performance.now() - since) * 1e6);

// A client has send(session, message), work() and stop(). Without work, handlers run from the start.
async function run({ send, work }) {
  const start = performance.now();
  const used = microseconds();
  await parallel(send);
  const Sent = work ? nanoseconds(start) : 0;
  await work?.();
  await handled;
  return { Sent, Took: nanoseconds(start), Processor: (microseconds() - used) * 1000 };
}

// bounded is a run that ends after the job's patience, which is in nanoseconds.
async function bounded(client) {
  const milliseconds = job.patience / 1e6;
  let timer;
  const over = new Promise((resolve) => {
    timer = setTimeout(() => {
      const Error = `of ${sessions * each} messages ${accepted} were accepted and ${ended.size} handled in ${milliseconds / 1000} s`;
      resolve({ Error });
    }, milliseconds);
  });
  try {
    return await Promise.race([run(client), over]);
  } catch (err) {
    return { Error: String(err) };
  } finally {
    clearTimeout(timer);
  }
}

// obey responds to the parent's words until the parent ends, so no child outlives it.
export async function obey(client) {
  for await (const word of createInterface({ input: process.stdin })) {
    let response;
    if (word === "run") response = await bounded(client);
    else {
      await client.stop?.();
      response = steps;
    }
    process.stdout.write(JSON.stringify(response) + "\n");
  }
  process.exit(0);
}

// A complete Rota worker for Node 20 or newer, without dependencies:
//   ROTA_TOKEN=$(cat counter.token) node examples/worker.mjs
// ROTA_URL names another server than this machine's, CONCURRENCY how many jobs run at once (4).
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const base = process.env.ROTA_URL ?? "http://127.0.0.1:8520";
const { protocol, hostname } = new URL(base);
if (protocol !== "https:" && !["127.0.0.1", "[::1]", "localhost"].includes(hostname)) {
  throw new Error("over plain HTTP anybody on the way could read the token: use https");
}
const headers = { Authorization: `Bearer ${process.env.ROTA_TOKEN}`, "Content-Type": "application/json" };

// A handler gets the payload and a signal. What it returns is the result; what it throws fails the attempt.
// It may run twice for one job, so its effects must bear repeating.
const handlers = {
  "word.count": ({ text }) => ({ words: text.split(/\s+/).filter(Boolean).length }),
  "nap.take": ({ seconds }, signal) => sleep(seconds * 1000, { slept: seconds }, { signal }),
};
const stopping = new AbortController();
for (const name of ["SIGTERM", "SIGINT"]) process.once(name, () => stopping.abort());

class Refused extends Error {} // the server has answered no, and would again

/** Sends a call until the server has decided; every call here may be repeated. Null stands for 204. */
async function post(path, body, signal) {
  for (let pause = 0.2; ; pause = Math.min(2 * pause, 5)) {
    let wait = pause * (0.5 + Math.random() / 2);
    try {
      const sent = { method: "POST", headers, body: JSON.stringify(body), redirect: "error", signal };
      const answer = await fetch(base + path, sent);
      if (answer.ok) return answer.status === 204 ? null : await answer.json();
      const problem = await answer.text();
      if (answer.status !== 429 && answer.status < 500) throw new Refused(`${answer.status} ${problem}`);
      wait = Math.max(wait, Number(answer.headers.get("Retry-After") ?? 0));
    } catch (fault) {
      if (fault instanceof Refused || signal?.aborted) throw fault;
    }
    await sleep(wait * 1000, null, { signal });
    if ("claim_id" in body) body.repeat = true; // give me what I hold under this id already
  }
}

async function run(job) {
  const { id, lease_token } = job;
  const stop = new AbortController(); // the job was lost or cancelled, or its time is up
  const beat = () =>
    post(`/jobs/${id}/heartbeat`, { lease_token, started: true }, stop.signal)
      .then((told) => told.cancel_requested && stop.abort(new Error("cancelled")))
      .catch((fault) => fault instanceof Refused && stop.abort(fault));
  beat();
  const beating = setInterval(beat, job.heartbeat_seconds * 1000);
  const late = () => stop.abort(new Error("timeout"));
  const timer = job.timeout_seconds && setTimeout(late, Math.min(job.timeout_seconds * 1000, 2 ** 31 - 1));
  let end = "complete", said;
  try {
    said = { result: (await handlers[job.type](job.payload, stop.signal)) ?? null };
  } catch (fault) {
    [end, said] = ["fail", { error: String(stop.signal.reason ?? fault) }];
  }
  clearInterval(beating);
  clearTimeout(timer);
  if (stop.signal.reason instanceof Refused) return; // lost: whatever was done, another worker has the job
  await post(`/jobs/${id}/${end}`, { lease_token, ...said }).catch((fault) => console.error(`job ${id}:`, fault));
}

async function work() {
  const asked = { types: Object.keys(handlers), wait_seconds: 30, instance: `node.${process.pid}` };
  while (!stopping.signal.aborted) {
    const job = await post("/jobs/claim", { ...asked, claim_id: randomUUID() }, stopping.signal);
    if (job) await run(job);
  }
}
const lanes = Array.from({ length: Number(process.env.CONCURRENCY ?? 4) }, work);
const ends = await Promise.allSettled(lanes); // a claim that is refused, such as for a wrong token, ends its lane
const refused = ends.find(({ reason }) => reason instanceof Refused);
if (refused) console.error(refused.reason.message);
process.exit(refused ? 1 : 0);

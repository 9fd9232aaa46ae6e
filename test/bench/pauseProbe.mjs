// Loaded into a gateway by `node --import`: measures for how long its event loop does not turn, and answers over the IPC
// channel. Any message gives `{ pauses, gc }` since the last one, in milliseconds, longest first.
//
// A timer of a millisecond looks how late it comes. What the thread waited for a processor that somebody else had is
// taken off (the scheduler's own account, where there is one): that says nothing about this program.
import { closeSync, openSync, readSync } from 'node:fs'
import { PerformanceObserver } from 'node:perf_hooks'

const KEPT = 20

const openAccount = () => {
  try {
    return openSync(`/proc/self/task/${process.pid}/schedstat`, 'r')
  } catch {
    return undefined
  }
}

const account = openAccount()
const bytes = Buffer.alloc(64)
/** Nanoseconds that the thread was ready to run and did not get to. */
const waited = () => (account === undefined ? 0 : Number(bytes.latin1Slice(0, readSync(account, bytes, 0, 64, 0)).split(' ')[1]))

let pauses = []
let collections = []
let last = performance.now()
let lastWaited = waited()

const note = (list, value) => {
  if (list.length === KEPT && value <= list[KEPT - 1]) return
  list.push(value)
  list.sort((a, b) => b - a)
  list.length = Math.min(list.length, KEPT)
}

const tick = setInterval(() => {
  const now = performance.now()
  const waitedNow = waited()
  note(pauses, Math.max(0, now - last - 1 - (waitedNow - lastWaited) / 1e6))
  last = now
  lastWaited = waitedNow
}, 1)
tick.unref()

const observer = new PerformanceObserver(list => {
  for (const { duration } of list.getEntries()) note(collections, duration)
})
observer.observe({ entryTypes: ['gc'] })

process.on('message', () => {
  process.send({ pauses, gc: collections })
  pauses = []
  collections = []
})
process.channel?.unref()
process.on('exit', () => account !== undefined && closeSync(account))

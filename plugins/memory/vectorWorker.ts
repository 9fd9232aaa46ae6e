import { parentPort } from 'node:worker_threads'
import { VectorSpaces, type Task } from './vectorSpaces.js'

/** What the main thread sends, and what it gets back. */
export interface Question {
  number: number
  task: Task
}
export type Answer = { number: number; result: unknown } | { number: number; error: string }

const spaces = new VectorSpaces()

parentPort?.on('message', ({ number, task }: Question) => {
  let answer: Answer
  try {
    answer = { number, result: spaces.run(task) }
  } catch (error) {
    answer = { number, error: error instanceof Error ? error.message : String(error) }
  }
  parentPort?.postMessage(answer)
})

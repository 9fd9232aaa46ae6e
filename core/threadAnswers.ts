import { parentPort } from 'node:worker_threads'
import type { Answer, Question } from './thread.js'

/** In a worker: answers what a `Thread` asks, one task after the other. */
export const answerTasks = <Task>(run: (task: Task) => unknown): void => {
  parentPort?.on('message', ({ number, task }: Question<Task>) => {
    let answer: Answer
    try {
      answer = { number, result: run(task) }
    } catch (error) {
      answer = { number, error: error instanceof Error ? error.message : String(error) }
    }
    parentPort?.postMessage(answer)
  })
}

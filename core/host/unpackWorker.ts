import { parentPort } from 'node:worker_threads'
import { extractArchive } from './extract.js'
import type { SignatureEvidence } from './signature.js'
import { IntegrityError, StageError } from './stage.js'

export interface UnpackTask {
  file: string
  directory: string
}

/** `refused`: what is wrong with the archive; `failed`: what kept us from finding out. */
export type UnpackResult = { evidence: SignatureEvidence } | { refused: string; invalid: boolean } | { failed: string }

// One task at a time: the next comes after the answer.
parentPort?.on('message', ({ file, directory }: UnpackTask) => {
  void extractArchive(file, directory)
    .then(
      (evidence): UnpackResult => ({ evidence }),
      (error: unknown): UnpackResult =>
        error instanceof StageError
          ? { refused: error.message, invalid: error instanceof IntegrityError }
          : { failed: (error as Error).message },
    )
    .then(result => parentPort?.postMessage(result))
})

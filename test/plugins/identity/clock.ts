import { mock } from 'node:test'

/** Lets days pass for the gateway in this process; `restore` brings the real time back. */
export const startClock = (): { pass: (ms: number) => void; restore: () => void } => {
  mock.timers.enable({ apis: ['Date'], now: Date.now() })
  return {
    pass: ms => {
      mock.timers.setTime(Date.now() + ms)
    },
    restore: () => {
      mock.timers.reset()
    },
  }
}

export const MINUTE_MS = 60_000
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS

/** Arguments for Node with which the clock of its process is so many milliseconds ahead of the right time. */
export const clockAhead = (ms: number): string[] => ['--import', `${new URL('./skewedClock.mjs', import.meta.url).href}?ms=${String(ms)}`]

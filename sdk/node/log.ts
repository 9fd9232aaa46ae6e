/** Where a node says what it does. Parameters, results and the token are never in it. */
export type NodeLog = (level: 'debug' | 'info' | 'warn' | 'error', message: string, fields?: Record<string, unknown>) => void

import { setting } from '../../core/config.js'

export const chatSettings = {
  /** Tasks that one gateway runs at the same time. */
  concurrency: setting.number('Service:Chat:Concurrency', { default: 8, min: 1, max: 256, integer: true, hot: true }),
  /** Unfinished tasks of one user; a message beyond it is refused. */
  maxPending: setting.number('Service:Chat:MaxPending', { default: 100, min: 1, max: 100_000, integer: true, hot: true }),
  /** Earlier messages that a model gets, in characters; about four are a token. */
  historyCharacters: setting.number('Service:Chat:HistoryCharacters', { default: 48_000, max: 4_000_000, integer: true, hot: true }),
  /** How long running tasks may go on when the gateway stops, in milliseconds; then they wait for the next start. */
  stopGraceMs: setting.number('Service:Chat:StopGraceMs', { default: 5_000, max: 600_000, integer: true, hot: true }),
  /** Days that finished tasks are kept. */
  retentionDays: setting.number('Service:Tasks:RetentionDays', { default: 90, min: 1, max: 36_500, hot: true }),
}

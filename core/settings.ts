import { setting } from './config.js'

/** The core's own configuration keys. A plugin that needs one declares this same setting. */
export const coreSettings = {
  dataDir: setting.string('Service:DataDir', { default: './data' }),
  host: setting.string('Service:Host', { default: '127.0.0.1' }),
  port: setting.number('Service:Port', { default: 8080, max: 65535, integer: true }),
  /** The gateway's address as the outside sees it, for webhook URLs; empty: the address that it listens on. */
  publicUrl: setting.string('Service:PublicUrl', { default: '' }),
  /** Empty: the embedded store in the data directory. */
  mongoUri: setting.string('Service:Store:MongoUri', { default: '', secret: true }),
  /** Empty: this gateway is the only one. */
  redisUri: setting.string('Service:Cluster:RedisUri', { default: '', secret: true }),
  /** How long a gateway that gives no sign of life is taken for alive by the others. */
  clusterLease: setting.duration('Service:Cluster:Lease', { default: 10, min: 1, max: 300 }),
  logLevel: setting.choice('Service:Log:Level', ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'], {
    default: 'info',
    hot: true,
  }),
  jsonLimit: setting.number('Service:Http:JsonLimitBytes', { default: 1024 * 1024, min: 1024, hot: true, integer: true }),
  uploadLimit: setting.number('Service:Http:UploadLimitBytes', { default: 50 * 1024 * 1024, min: 1024, hot: true, integer: true }),
  /** How long the client may pause in a request's body; JSON and other small bodies may take ten times that in all. */
  receiveTimeoutSeconds: setting.number('Service:Http:ReceiveTimeoutSeconds', { default: 30, min: 1, max: 600, hot: true }),
  /** Origins whose pages may call the API from a browser; `*` for any. */
  corsOrigins: setting.list('Service:Http:CorsOrigins', { default: [] }),
  compression: setting.boolean('Service:Http:Compression', { default: true }),
  /** The gateway stands behind a reverse proxy that sets `X-Forwarded-For`. */
  trustProxy: setting.boolean('Service:Http:TrustProxy', { default: false }),
  /** How long requests under way may go on when the gateway stops. */
  drainSeconds: setting.number('Service:Http:DrainSeconds', { default: 10, max: 600 }),
}

import type { Server } from 'node:http'
import type { Cluster } from './cluster/cluster.js'
import { installations, type Installation } from './cluster/installation.js'
import { checkStore, joinCluster } from './cluster/open.js'
import { singleGateway } from './cluster/single.js'
import type { Config, SettingValues } from './config.js'
import { EventBus, gatewayListening } from './events.js'
import { HttpServer } from './http/server.js'
import type { Log } from './log.js'
import { dependencyOrder } from './order.js'
import type { Plugin, PluginContext, ServiceRef } from './plugin.js'
import { coreSettings } from './settings.js'
import type { Collection, Store } from './store/collection.js'
import { openStore } from './store/open.js'
import { scoped } from './store/scope.js'

export interface AppOptions {
  config: Config
  log: Log
  /** Tags of the API description, in the order that a reader meets them in; those not named here follow by name. */
  areas?: readonly string[]
}

/** A gateway in this process. */
export interface App {
  /** Starts the plugins in dependency order and listens. Rejects with an error that names the plugin at fault, with everything undone. */
  start(): Promise<{ url: string }>
  /** Stops accepting, finishes what runs, stops the plugins in reverse, closes the store. Safe to call again. */
  stop(): Promise<void>
  /** The running service behind a reference. */
  service<T>(ref: ServiceRef<T>): T
  /** The listening HTTP server. */
  readonly server: Server
}

type Undo = () => unknown

/** Brings internal plugins together; knows no feature. Throws `PluginOrderError` or `ConfigError` when they cannot be started. */
export const createApp = (plugins: readonly Plugin[], options: AppOptions): App => new Application(plugins, options)

class Application implements App {
  readonly #plugins: Plugin[]
  readonly #config: Config
  readonly #log: Log
  readonly #settings: SettingValues<typeof coreSettings>
  readonly #events: EventBus
  readonly #http: HttpServer
  readonly #services = new Map<string, unknown>()
  /** What each started plugin registered, in order; undone in reverse. */
  readonly #started: { plugin: Plugin; undo: Undo[] }[] = []
  #store: Store | undefined
  #cluster: Cluster = singleGateway()
  #leaveCluster: (() => Promise<void>) | undefined
  #starting: Promise<{ url: string }> | undefined
  #stopping: Promise<void> | undefined

  constructor(plugins: readonly Plugin[], { config, log, areas = [] }: AppOptions) {
    this.#plugins = dependencyOrder(plugins)
    this.#config = config
    this.#log = log
    this.#settings = bindAll(config, coreSettings)
    for (const plugin of this.#plugins) bindAll(config, plugin.settings ?? {})
    this.#events = new EventBus(log)
    this.#http = new HttpServer(config, this.#settings, log)
    this.#http.describeTags(inOrder(Object.assign({}, ...plugins.map(({ tags }) => tags)) as Record<string, string>, areas))
  }

  get server(): Server {
    return this.#http.server
  }

  service<T>(ref: ServiceRef<T>): T {
    if (!this.#services.has(ref.id)) throw new Error(`The service "${ref.id}" does not run`)
    return this.#services.get(ref.id) as T
  }

  start(): Promise<{ url: string }> {
    this.#starting ??= this.#start()
    return this.#starting
  }

  stop(): Promise<void> {
    this.#stopping ??= (async () => {
      // A stop in the middle of a start waits for its end: what is half started cannot be undone.
      const started = await this.#starting?.then(
        () => true,
        () => false,
      )
      if (started) await this.#undoAll()
    })()
    return this.#stopping
  }

  async #start(): Promise<{ url: string }> {
    try {
      for (const key of this.#config.unknownKeys()) this.#log.warn(`${key} is not a known configuration key`)
      const mongoUri = this.#settings.mongoUri.get()
      const redisUri = this.#settings.redisUri.get()
      checkStore(redisUri, mongoUri)
      const store = await openStore({ dataDir: this.#settings.dataDir.get(), log: this.#log, ...(mongoUri === '' ? {} : { mongoUri }) })
      this.#store = store
      const contexts = this.#plugins.map(plugin => ({ plugin, handles: this.#openCollections(store, plugin) }))
      const rows = redisUri === '' ? undefined : store.collection('cluster.installations', installations)
      await store.ready()
      if (rows) await this.#join(redisUri, rows)
      for (const { plugin, handles } of contexts) await this.#startPlugin(plugin, handles)
      this.#http.checkAccess()
      const url = await this.#http.listen()
      this.#events.emit(gatewayListening, { url })
      return { url }
    } catch (error) {
      await this.#undoAll()
      throw error
    }
  }

  async #join(redisUri: string, rows: Collection<Installation>): Promise<void> {
    const joined = await joinCluster(redisUri, { rows, leaseMs: this.#settings.clusterLease.get() * 1000, log: this.#log })
    this.#cluster = joined.cluster
    this.#leaveCluster = () => joined.close()
    this.#http.countTogether(options => joined.cluster.limiter(options))
  }

  async #undoAll(): Promise<void> {
    await this.#http.close()
    for (const { plugin, undo } of this.#started.reverse()) await this.#undo(plugin, undo)
    await this.#events.settled()
    await this.#leaveCluster?.()
    await this.#store?.close()
  }

  #openCollections(store: Store, plugin: Plugin): Record<string, unknown> {
    return Object.fromEntries(
      Object.entries(plugin.collections ?? {}).map(([name, spec]) => [name, scoped(store.collection(`${plugin.id}.${name}`, spec), spec)]),
    )
  }

  async #startPlugin(plugin: Plugin, handles: Record<string, unknown>): Promise<void> {
    const undo: Undo[] = []
    this.#started.push({ plugin, undo })
    try {
      const service: unknown = await plugin.setup(this.#contextOf(plugin, handles, undo) as never)
      if (plugin.provides) this.#services.set(plugin.provides.id, service)
    } catch (error) {
      throw new Error(`The plugin "${plugin.id}" could not start: ${error instanceof Error ? error.message : String(error)}`, {
        cause: error,
      })
    }
  }

  #contextOf(plugin: Plugin, handles: Record<string, unknown>, undo: Undo[]): PluginContext {
    return {
      needs: Object.fromEntries(Object.entries(plugin.needs ?? {}).map(([name, ref]) => [name, this.service(ref)])),
      store: handles as never,
      settings: this.#bindUndone(plugin, undo),
      log: this.#log.child({ plugin: plugin.id }),
      cluster: this.#cluster,
      routes: routes => {
        for (const route of routes) undo.push(this.#http.add(route))
      },
      http: this.#http.registry(step => undo.push(step)),
      emit: (event, payload) => {
        this.#events.emit(event, payload)
      },
      on: (event, handler) => {
        undo.push(this.#events.on(event, handler))
      },
      onStop: step => {
        undo.push(step)
      },
    }
  }

  /** The plugin's settings; what it watches ends with it. */
  #bindUndone(plugin: Plugin, undo: Undo[]): SettingValues<Record<string, never>> {
    const bound = Object.entries(bindAll(this.#config, plugin.settings ?? {})).map(([name, value]) => [
      name,
      {
        ...value,
        onChange: (handler: (value: unknown) => void) => {
          const stop = value.onChange(handler)
          undo.push(stop)
          return stop
        },
      },
    ])
    return Object.fromEntries(bound) as SettingValues<Record<string, never>>
  }

  async #undo(plugin: Plugin, undo: Undo[]): Promise<void> {
    for (const step of undo.reverse()) {
      try {
        await step()
      } catch (error) {
        this.#log.error({ err: error, plugin: plugin.id }, `the plugin ${plugin.id} did not stop cleanly`)
      }
    }
  }
}

/** The named ones first, as they are named; the others by name. */
const inOrder = (tags: Readonly<Record<string, string>>, names: readonly string[]): Record<string, string> => {
  const all = [...new Set([...names, ...Object.keys(tags).sort()])]
  return Object.fromEntries(all.flatMap(name => (tags[name] === undefined ? [] : [[name, tags[name]]])))
}

const bindAll = <S extends Record<string, Parameters<Config['bind']>[0]>>(config: Config, settings: S): SettingValues<S> =>
  Object.fromEntries(Object.entries(settings).map(([name, setting]) => [name, config.bind(setting)])) as SettingValues<S>

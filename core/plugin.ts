import type { z } from 'zod'
import type { Cluster } from './cluster/cluster.js'
import type { Setting, SettingValues } from './config.js'
import type { Log } from './log.js'
import type { Route } from './http/route.js'
import type { HttpRegistry } from './http/registry.js'
import type { CollectionSpec, Document, Handles } from './store/collection.js'

/** A typed reference to what a plugin provides. The id is camelCase; `T` is the promise, from the plugin's `contract.ts`. */
export interface ServiceRef<T> {
  readonly kind: 'service'
  readonly id: string
  /** Never set: carries the service's type. */
  readonly instance?: T
}

export const service = <T>(id: string): ServiceRef<T> => ({ kind: 'service', id })

/** A typed event: `<plugin>.<pastTense>`. The schema is checked when it is emitted. */
export interface EventRef<T> {
  readonly kind: 'event'
  readonly id: string
  readonly schema: z.ZodType<T>
}

export const event = <T>(id: string, schema: z.ZodType<T>): EventRef<T> => ({ kind: 'event', id, schema })

export type Needs = Record<string, ServiceRef<unknown>>
export type Instances<N> = { readonly [K in keyof N]: N[K] extends ServiceRef<infer T> ? T : never }
export type Collections = Record<string, CollectionSpec<Document>>
export type Settings = Record<string, Setting<unknown>>

/** What a plugin's `setup` works with. Everything registered through it is undone, in reverse, when the plugin stops. */
export interface PluginContext<N extends Needs = Needs, C extends Collections = Collections, S extends Settings = Settings> {
  /** The services named in `needs`. */
  readonly needs: Instances<N>
  /** Handles of the collections named in `collections`. */
  readonly store: Handles<C>
  /** The settings named in `settings`: read, watch, set. */
  readonly settings: SettingValues<S>
  readonly log: Log
  /** The other gateways, where there are any. */
  readonly cluster: Cluster
  /** Adds REST routes below `/api`. */
  readonly routes: (routes: Route[]) => void
  /** Open sets of the HTTP room: authenticators, tenant resolver, drain state. */
  readonly http: HttpRegistry
  readonly emit: <T>(event: EventRef<T>, payload: NoInfer<T>) => void
  /** Handlers run after the emitter's turn; a failing one is logged and hurts no one else. */
  readonly on: <T>(event: EventRef<T>, handler: (payload: T) => void | Promise<void>) => void
  /** Undo at stop, last registered first. Awaited. */
  readonly onStop: (undo: () => void | Promise<void>) => void
}

export interface PluginDefinition<
  T = unknown,
  N extends Needs = Needs,
  C extends Collections = Collections,
  S extends Settings = Settings,
> {
  /** kebab-case. */
  readonly id: string
  readonly provides?: ServiceRef<T>
  readonly needs?: N
  /**
   * Those of `needs` whose open sets this plugin fills (with tools, model providers, ...): it starts before whoever else
   * needs them, and stops after.
   */
  readonly extends?: readonly (keyof N & string)[]
  readonly collections?: C
  readonly settings?: S
  /** What the tags of its routes are about, in a sentence, for the API description. */
  readonly tags?: Readonly<Record<string, string>>
  /** Builds the service (returned when `provides` is given) and registers routes and handlers. Runs before the gateway listens. */
  setup(context: PluginContext<N, C, S>): T | Promise<T>
}

/** A plugin whose types no longer matter: what the application's list holds. */
export type Plugin = Omit<PluginDefinition, 'setup'> & { setup(context: never): unknown }

/** Declares an internal plugin. See `architecture` in the README for its shape. */
export const definePlugin = <
  T,
  N extends Needs = Record<never, never>,
  C extends Collections = Record<never, never>,
  S extends Settings = Record<never, never>,
>(
  definition: PluginDefinition<T, N, C, S>,
): Plugin => definition

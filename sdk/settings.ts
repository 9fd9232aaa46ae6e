/** What of a manifest gives its settings their types. Write it `as const`, or settings are all `string | undefined`. */
export interface ManifestWithSettings {
  readonly settings?: readonly {
    readonly name?: string
    readonly key?: string
    readonly required?: boolean
    readonly default?: string
  }[]
  readonly recipientMetadataKey?: string
}

type Entry<M> = M extends { readonly settings: readonly (infer S)[] } ? S : never
type NameOf<S> = S extends { readonly name: infer N extends string } ? N : S extends { readonly key: infer K extends string } ? K : never
type Given<S> = S extends { readonly required: true } | { readonly default: string } ? NameOf<S> : never

/** The settings of a channel, by the manifest's `settings`: required ones and those with a default are strings, others may be absent. */
export type SettingsOf<M> = [NameOf<Entry<M>>] extends [never]
  ? Readonly<Record<string, string | undefined>>
  : string extends NameOf<Entry<M>>
    ? Readonly<Record<string, string | undefined>>
    : { readonly [K in Given<Entry<M>>]: string } & { readonly [K in Exclude<NameOf<Entry<M>>, Given<Entry<M>>>]?: string }

/** The values a channel has, and the manifest's defaults for the rest. */
export function fillDefaults<M extends ManifestWithSettings>(manifest: M | undefined, values: Record<string, string>): SettingsOf<M> {
  const filled: Record<string, string> = { ...values }
  for (const { name, key, default: preset } of manifest?.settings ?? []) {
    const setting = name ?? key
    if (setting !== undefined && preset !== undefined && (filled[setting] ?? '').trim() === '') filled[setting] = preset
  }
  return filled as SettingsOf<M>
}

import { RpcErrorCode } from '../protocol.js'
import { brief, expect, Skip, type Bench } from './check.js'
import type { Answer } from './wire.js'

/** Models may take their time. */
export const PROVIDER_MS = 60_000

/** The codes of a provider that says no, or not now. */
const FORESEEN: readonly unknown[] = [RpcErrorCode.rejected, RpcErrorCode.temporary, RpcErrorCode.busy]

/** A provider without what it needs can only refuse. */
export function needSettings({ missingSettings }: Bench): void {
  if (missingSettings.length > 0) throw new Skip(`the settings ${missingSettings.join(', ')} need values: --settings FILE.json`)
}

/** The result of a call. One that was refused as the protocol foresees says nothing about the provider: the check is left out. */
export function resultOf({ result, error }: Answer, method: string): Record<string, unknown> {
  if (error !== undefined && FORESEEN.includes(error.code))
    throw new Skip(`${method} was refused (${brief(error.message)}): give settings that work, --settings FILE.json`)
  expect(
    error === undefined,
    `${method} failed with ${brief(error?.code)} (${brief(error?.message)}): throw rejected or temporary for what can be foreseen`,
  )
  return (result ?? {}) as Record<string, unknown>
}

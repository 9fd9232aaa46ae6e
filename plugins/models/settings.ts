import { z } from 'zod'
import { setting } from '../../core/config.js'
import { OFFLINE } from './contract.js'

const PROVIDER_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

/** An endpoint that speaks the OpenAI chat completions API. Numbers may be text, as they are in the environment. */
export const ProviderSettings = z.object({
  /** Up to and without `/chat/completions`, for example `https://api.openai.com/v1`. */
  BaseUrl: z.url({ protocol: /^https?$/ }),
  ApiKey: z.string().optional(),
  /** The default model. */
  Model: z.string().min(1).optional(),
  /** For one whole answer, however often the model is called for it; the time that tools take does not count. */
  TimeoutMs: z.coerce.number().int().min(1).max(3_600_000).default(120_000),
  /** After the first try, with back-off; for connection failures and statuses 408, 409, 429 and 5xx. */
  Retries: z.coerce.number().int().min(0).max(10).default(2),
  /** Model calls for one answer, each of which may ask for tools. */
  MaxSteps: z.coerce.number().int().min(1).max(100).default(12),
})
export type ProviderSettings = z.output<typeof ProviderSettings>

const Providers = z.record(z.string(), ProviderSettings).superRefine((providers, context) => {
  for (const name of Object.keys(providers)) {
    if (!PROVIDER_NAME.test(name))
      context.addIssue({ code: 'custom', path: [name], message: 'a provider is named by letters, digits, dots, _ and -, at most 64' })
    if (name.toLowerCase() === OFFLINE)
      context.addIssue({ code: 'custom', path: [name], message: `"${OFFLINE}" is the built-in provider: use another name` })
  }
})

export const modelSettings = {
  /** `provider/model` or `provider`. Empty: the first configured provider with a model, or `offline`. */
  default: setting.string('Service:Models:Default', { default: '', hot: true }),
  providers: setting.section<Record<string, ProviderSettings>>('Service:Models:Providers', Providers, { default: {}, hot: true }),
}

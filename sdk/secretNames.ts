/** Words that name a secret wherever they stand. */
const secretWords = new Set([
  ...['token', 'secret', 'secrets', 'password', 'passwords', 'passwd', 'pwd', 'passphrase', 'passcode', 'credential', 'credentials'],
  ...['creds', 'apikey', 'apikeys', 'auth', 'oauth', 'authorization', 'bearer', 'jwt', 'hmac', 'signing', 'cookie', 'mnemonic', 'dsn'],
])

/** Endings that name a secret in names written without any border, such as `bottoken`. */
const secretEndings = [
  'token',
  'secret',
  'password',
  'passwd',
  'passphrase',
  'apikey',
  'privatekey',
  'secretkey',
  'accesskey',
  'credential',
]

/** What stands before `key` when the key is one to hide: not a sort key, not a public key. */
const keyQualifiers = new Set([
  ...['api', 'private', 'access', 'secret', 'encryption', 'encrypt', 'master', 'shared', 'account', 'subscription', 'client', 'server'],
  ...['consumer', 'service', 'license', 'licence', 'webhook', 'bot', 'app', 'storage', 'ssh', 'gpg', 'pgp', 'session', 'deploy'],
  ...['recovery', 'integration', 'verification', 'signature', 'rest', 'user', 'admin'],
])

/** A name that ends so tells something about the secret, not the secret: `tokenUrl`, `passwordMinLength`. */
const harmlessEndings = new Set([
  ...['url', 'uri', 'endpoint', 'host', 'port', 'domain', 'path', 'type', 'kind', 'mode', 'method', 'scheme', 'flow', 'name', 'field'],
  ...['limit', 'count', 'ttl', 'lifetime', 'expiry', 'expires', 'expiration', 'timeout', 'length', 'size', 'policy', 'algorithm', 'algo'],
  ...['enabled', 'disabled', 'required', 'provider', 'issuer', 'audience', 'scope', 'scopes', 'budget', 'rotation', 'version', 'format'],
])

/** `maxTokens`, `tokensPerMinute`: amounts of text, not secrets. These make the plural one. */
const pluralTokenQualifiers = new Set(['access', 'auth', 'api', 'bearer', 'refresh', 'bot', 'secret', 'session', 'user', 'device'])
const amounts = new Set(['max', 'maximum', 'min', 'minimum', 'num', 'number', 'count', 'total', 'per'])

/**
 * Whether a setting called so is likely to hold a secret: token, secret, password, apiKey and similar, in camelCase,
 * snake_case, kebab-case or run together. Used where no manifest says it, for a channel whose plugin is stopped.
 */
export function looksLikeSecretName(name: string): boolean {
  const words = splitWords(name.slice(0, 256))
  const last = words.at(-1)
  if (last === undefined || harmlessEndings.has(last)) return false
  if (words.some(word => amounts.has(word)) && words.some(word => word === 'token' || word === 'tokens')) return false
  return words.some((word, index) => isSecretWord(word, words[index - 1], words[index + 1]))
}

function isSecretWord(word: string, before: string | undefined, after: string | undefined): boolean {
  if (secretWords.has(word)) return true
  if (word === 'tokens') return after === undefined && (before === undefined || pluralTokenQualifiers.has(before))
  if (word === 'key' || word === 'keys') return before !== undefined && keyQualifiers.has(before) && after !== 'id'
  if (word === 'pass') return after === undefined
  if (word === 'phrase' || word === 'string') return before === (word === 'phrase' ? 'seed' : 'connection')
  return secretEndings.some(ending => word.endsWith(ending))
}

/** `APIKey2_value` → api, key, value. */
const splitWords = (name: string): string[] =>
  name
    .replace(/([\p{Ll}\d])(\p{Lu})/gu, '$1 $2')
    .replace(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1 $2')
    .toLowerCase()
    .split(/[^\p{L}]+/u)
    .filter(word => word !== '')

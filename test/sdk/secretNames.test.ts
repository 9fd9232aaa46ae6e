import assert from 'node:assert/strict'
import { looksLikeSecretName } from '../../sdk/secretNames.js'

const secrets =
  'token secret password apiKey api_key API_KEY APIKEY api-key botToken bot_token bottoken accessToken access_tokens tokens credentials ' +
  'privateKey private-key passphrase auth authHeader OAuthToken oauth2ClientSecret signingSecret signing_key smtpPass password1 clientsecret ' +
  'webhookSecret secretId connectionString dsn hmacKey sharedKey x-api-key MY_APP_TOKEN jwt bearer secretAccessKey Password userPassword'
const others =
  'tokenizer author authority keyboard maxTokens max_tokens tokensPerMinute callbackUrl chatId publicKey primaryKey recipientMetadataKey hotkey ' +
  'monkey secretary bypass passthrough compass tokenUrl token_endpoint authType passwordMinLength accessKeyId host name username port ' +
  'maxOutputTokens contextTokens broken keyId passport url cookieDomain'

describe('the secret-name heuristic', () => {
  for (const name of secrets.split(' ')) it(`takes ${name} for a secret`, () => assert.equal(looksLikeSecretName(name), true))
  for (const name of others.split(' ')) it(`does not take ${name} for one`, () => assert.equal(looksLikeSecretName(name), false))
  it('copes with odd names', () => {
    for (const name of ['', '---', '🔑', 'x'.repeat(100_000)]) assert.equal(looksLikeSecretName(name), false)
  })
})

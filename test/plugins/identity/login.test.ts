import assert from 'node:assert/strict'
import { ADMIN, login, startGateway, type TestGateway } from '../../support/gateway.js'
import { identityPlugins } from './identityPlugins.js'

describe('logging in', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startGateway({ plugins: identityPlugins })
  })
  after(() => gateway.stop())

  it('answers with a token, its end, and the user; the token works', async () => {
    const answer = await gateway.call('POST', '/auth/login', { body: { email: ' ADMIN@localhost ', password: ADMIN.password } })
    assert.equal(answer.status, 200)
    assert.deepEqual(Object.keys(answer.body).sort(), ['expiresAt', 'token', 'user'])
    assert.equal(answer.body.user.email, 'admin@localhost')
    assert.deepEqual(answer.body.user.roles, ['Admin'])
    assert.equal(answer.body.user.tenant, null)
    assert.ok(answer.body.user.permissions.includes('ManageSettings'))
    assert.match(answer.body.expiresAt, /Z$/)
    const me = await gateway.call('GET', '/auth/me', { token: answer.body.token })
    assert.equal(me.status, 200)
    assert.deepEqual(me.body, answer.body.user)
  })

  it('does not tell a wrong password from an unknown address', async () => {
    const wrong = await gateway.call('POST', '/auth/login', { body: { email: ADMIN.email, password: 'not the password' } })
    const unknown = await gateway.call('POST', '/auth/login', { body: { email: 'nobody@localhost', password: 'not the password' } })
    assert.equal(wrong.status, 401)
    assert.equal(unknown.status, 401)
    const shown = ({ body }: typeof wrong): unknown => ({ ...body.error, requestId: '' })
    assert.deepEqual(shown(wrong), shown(unknown))
  })

  it('refuses a body without a password with the issue named', async () => {
    const answer = await gateway.call('POST', '/auth/login', { body: { email: ADMIN.email } })
    assert.equal(answer.status, 422)
    assert.equal(answer.body.error.details.issues[0].path, 'password')
  })

  it('lets many log in at once', async () => {
    const tokens = await Promise.all(Array.from({ length: 8 }, () => login(gateway)))
    assert.equal(new Set(tokens).size, 8)
  })
})

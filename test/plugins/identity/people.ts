import { login, type TestGateway } from '../../support/gateway.js'

export interface Person {
  id: string
  email: string
  password: string
}

let people = 0

/** Creates a user as the given administrator; by default of the role User, in no tenant. */
export const addUser = async (gateway: TestGateway, admin: string, wanted: Record<string, unknown> = {}): Promise<Person> => {
  people += 1
  const email = `person${String(people)}@example.org`
  const password = `password of person ${String(people)}`
  const answer = await gateway.call('POST', '/admin/users', { token: admin, body: { email, password, ...wanted } })
  if (answer.status !== 201) throw new Error(`no user was created: ${String(answer.status)} ${answer.text}`)
  return { id: answer.body.id as string, email: answer.body.email as string, password: (wanted.password as string | undefined) ?? password }
}

/** A new user and a token of its first session. */
export const newcomer = async (
  gateway: TestGateway,
  admin: string,
  wanted: Record<string, unknown> = {},
): Promise<Person & { token: string }> => {
  const person = await addUser(gateway, admin, wanted)
  return { ...person, token: await login(gateway, person) }
}

/** The status that `GET /auth/me` answers this token with. */
export const statusOf = async (gateway: TestGateway, token: string): Promise<number> =>
  (await gateway.call('GET', '/auth/me', { token })).status

import { setting } from '../../core/config.js'
import { gatewayListening } from '../../core/events.js'
import { unauthenticated } from '../../core/errors.js'
import type { Authenticate } from '../../core/http/registry.js'
import { definePlugin } from '../../core/plugin.js'
import { coreSettings } from '../../core/settings.js'
import { collection } from '../../core/store/collection.js'
import { audit } from '../audit/contract.js'
import { vault } from '../vault/contract.js'
import { normaliseEmail } from './accountPolicy.js'
import { Administrators } from './administrators.js'
import { adminRoutes } from './adminRoutes.js'
import { ApiTokens, TOKEN_PREFIX } from './apiTokens.js'
import { AutoAdmin, checkAutoAdminHost } from './autoAdmin.js'
import { identity } from './contract.js'
import { ensureAdministrator } from './firstRun.js'
import { LastUse } from './lastUse.js'
import { Login } from './login.js'
import { LoginThrottle } from './loginThrottle.js'
import { PasswordResets } from './passwordResets.js'
import { Passwords } from './passwords.js'
import { Removals } from './removals.js'
import { authRoutes } from './routes.js'
import type { ApiTokenRow, GuardRow, RemovalRow, SessionRow, SigningKeyRow, TenantRow, UserRow } from './rows.js'
import { Sessions } from './sessions.js'
import { SessionTokens } from './sessionTokens.js'
import { SigningKeys } from './signingKeys.js'
import { Tenants } from './tenants.js'
import { toUser, Users } from './users.js'

/** The terminal, not the log: what is shown here once must not be kept. */
const showOnTerminal = (text: string): Promise<void> =>
  new Promise((resolve, reject) => {
    process.stderr.write(text, error => {
      if (error) reject(error)
      else resolve()
    })
  })

export default definePlugin({
  id: 'identity',
  tags: {
    auth: 'Log in and out, the own sessions and API tokens.',
    admin: "Users, roles, tenants and keys: an administrator's.",
  },
  provides: identity,
  needs: { audit, vault },
  collections: {
    users: collection.global<UserRow>({
      indexes: [
        { fields: { email: 1 }, unique: true },
        { fields: { tenant: 1, createdAt: -1 } },
        { fields: { gatewayAdmin: 1 }, sparse: true },
        { fields: { spreading: 1 }, sparse: true },
      ],
    }),
    sessions: collection.global<SessionRow>({ indexes: [{ fields: { userId: 1, createdAt: -1 } }], expires: true }),
    tokens: collection.global<ApiTokenRow>({ indexes: [{ fields: { userId: 1, createdAt: -1 } }], expires: true }),
    tenants: collection.global<TenantRow>({ indexes: [{ fields: { slug: 1 }, unique: true }] }),
    signingKeys: collection.global<SigningKeyRow>(),
    guards: collection.global<GuardRow>(),
    removals: collection.global<RemovalRow>({ indexes: [{ fields: { dueAt: 1 } }] }),
  },
  settings: {
    dataDir: coreSettings.dataDir,
    host: coreSettings.host,
    corsOrigins: coreSettings.corsOrigins,
    /** Requests without credentials are the administrator's. For development on loopback only. */
    autoAdmin: setting.boolean('Service:Auth:AutoAdmin', { default: false }),
    /** How long a login lasts from its start or its last refresh. */
    sessionLifetime: setting.duration('Service:Auth:SessionLifetime', { default: 30 * 86_400, min: 1, hot: true }),
    /** How long a login lasts without being used. */
    idleTimeout: setting.duration('Service:Auth:IdleTimeout', { default: 12 * 3600, min: 1, hot: true }),
    /** The first administrator; used when there is none. */
    adminEmail: setting.string('Service:Admin:Email', { default: 'admin@localhost' }),
    adminPassword: setting.string('Service:Admin:Password', { default: '', secret: true }),
  },
  setup: async context => {
    const { needs, store, settings, http, log, cluster } = context
    const autoAdminOn = settings.autoAdmin.get()
    if (autoAdminOn) checkAutoAdminHost(settings.host.get())

    const lastUse = new LastUse(log)
    context.onStop(() => lastUse.settled())
    const keys = new SigningKeys(store.signingKeys, needs.vault, log)
    const sessionTokens = new SessionTokens(keys)
    const sessions = new Sessions(store.sessions, sessionTokens, lastUse, {
      lifetimeMs: () => settings.sessionLifetime.get() * 1000,
      idleTimeoutMs: () => settings.idleTimeout.get() * 1000,
    })
    const tokens = new ApiTokens(store.tokens, lastUse)
    const tenants = new Tenants(store.tenants)
    const passwords = new Passwords()
    const administrators = new Administrators(store.guards)
    const removals = new Removals({ rows: store.removals, exists: async id => (await users.byId(id)) !== null, log })
    // First, and so the last to be asked: whose secrets they are needs them until it has ended.
    context.onStop(removals.register('vault', owner => needs.vault.removeAll(owner)))
    const users: Users = new Users({ rows: store.users, passwords, administrators, tenants, sessions, tokens, removals })
    const login = new Login({ users, sessions, passwords, throttle: new LoginThrottle(cluster.limiter), audit: needs.audit })

    await users.recover()
    const first = { email: normaliseEmail(settings.adminEmail.get()), password: settings.adminPassword.get() }
    await ensureAdministrator(users, first, { show: showOnTerminal, log })

    const resets = new PasswordResets({ dataDir: settings.dataDir.get(), users, audit: needs.audit, log })
    context.onStop(() => resets.stop())
    await resets.start()

    const autoAdmin = autoAdminOn ? new AutoAdmin(users, settings.corsOrigins.get()) : undefined
    const authenticate: Authenticate = ({ bearer, headers }) => {
      if (bearer === undefined) {
        if (autoAdmin) return autoAdmin.caller(headers)
        throw unauthenticated()
      }
      if (bearer.startsWith(TOKEN_PREFIX)) return tokens.check(bearer)
      const claims = sessionTokens.verify(bearer)
      return claims instanceof Promise ? claims.then(verified => sessions.check(verified)) : sessions.check(claims)
    }
    context.on(gatewayListening, () => {
      removals.start()
    })
    context.onStop(() => removals.stop())
    http.authenticator('user', authenticate)
    http.tenants(tenants.bind)
    context.routes([
      ...authRoutes({ users, sessions, tokens, login, audit: needs.audit }),
      ...adminRoutes({ users, sessions, tenants, audit: needs.audit, rotateSigningKey: () => keys.rotate() }),
    ])

    return {
      user: async id => {
        const row = await users.byId(id)
        return row && !row.disabled ? toUser(row) : null
      },
      createUser: async user => toUser(await users.create(user)),
      logoutEverywhere: ({ userId }) => sessions.endAll(userId),
      onRemoval: (area, end) => removals.register(area, end),
      rotateSigningKey: () => keys.rotate(),
    }
  },
})

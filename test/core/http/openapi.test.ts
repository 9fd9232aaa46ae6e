import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { catalogue } from '../../../core/errors.js'
import { describeApi } from '../../../core/http/openapi.js'
import { route } from '../../../core/http/route.js'
import { version } from '../../../core/version.js'
import { startGateway, type TestGateway } from '../../support/gateway.js'
import { exampleRoutes, routesPlugin, testIdentity } from './support.js'

const codes = new Map(Object.entries(catalogue).map(([code, status]) => [status as number, code]))

describe('the interface description', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startGateway({ plugins: [testIdentity, routesPlugin(...exampleRoutes())] })
  })
  after(() => gateway.stop())

  const described = async () => JSON.parse(await (await fetch(`${gateway.url}/openapi/v1/openapi.json`)).text())

  it('holds every route with its parameters, body, answers, access and limit', async () => {
    const { openapi, paths, components } = await described()
    assert.equal(openapi, '3.1.0')
    const make = paths['/things'].post
    assert.equal(make.operationId, 'postThings')
    assert.deepEqual(make.requestBody.content['application/json'].schema.required, ['name'])
    assert.deepEqual(make.responses['201'].content['application/json'].schema, { $ref: '#/components/schemas/Thing' })
    assert.ok(make.responses['201'].headers.Location)
    assert.equal(make['x-rate-limit'], 'write')
    assert.deepEqual(make.security, [{ user: [] }])
    assert.deepEqual(paths['/open'].get.security, [])
    assert.equal(paths['/open'].get.parameters[0].name, 'n')
    assert.equal(paths['/for-admins'].get['x-access'], 'admin')
    assert.deepEqual(Object.keys(components.schemas.Thing.properties), ['id', 'name'])
  })

  it('gives a schema with different forms in and out two names', () => {
    const Row = z.object({ name: z.string(), size: z.number().default(1) }).meta({ id: 'Row' })
    const Rows = z.object({ rows: z.array(Row) })
    const api = describeApi(
      [
        route({
          method: 'POST',
          path: '/rows',
          access: 'public',
          limit: 'write',
          summary: 'R',
          body: Rows,
          returns: Rows,
          handle: ({ body }) => body,
        }),
      ],
      '1.0.0',
    ) as { components: { schemas: Record<string, { required: string[] }> } }
    assert.deepEqual(Object.keys(api.components.schemas).sort(), ['Error', 'Row', 'RowInput'])
    assert.deepEqual(api.components.schemas.RowInput!.required, ['name'])
    assert.deepEqual(api.components.schemas.Row!.required, ['name', 'size'])
  })

  it('shows the areas in the order of their descriptions, then the others', () => {
    const at = (path: string) => route({ method: 'GET', path, access: 'public', limit: 'none', summary: 'S', handle: () => undefined })
    const tags = new Map([
      ['zebras', 'Striped.'],
      ['unused', 'Of no route.'],
      ['apes', 'Clever.'],
    ])
    const api = describeApi([at('/apes'), at('/bees'), at('/zebras')], '1.0.0', tags) as { tags: unknown }
    assert.deepEqual(api.tags, [{ name: 'zebras', description: 'Striped.' }, { name: 'apes', description: 'Clever.' }, { name: 'bees' }])
  })

  it('gives an example of every error, with the code that belongs to its status', async () => {
    const { paths, components } = await described()
    const { responses } = paths['/things'].post
    for (const [status, { $ref }] of Object.entries<{ $ref?: string }>(responses)) {
      if ($ref === undefined || status === 'default') continue
      const { example } = components.responses[$ref.split('/').at(-1) ?? ''].content['application/json']
      assert.equal(example.error.code, status === '415' ? 'invalid_request' : codes.get(Number(status)), status)
    }
    assert.deepEqual(responses.default, { $ref: '#/components/responses/Error' })
  })

  it('is shown by a page that loads nothing from elsewhere', async () => {
    const page = await fetch(`${gateway.url}/openapi`)
    assert.equal(page.status, 200)
    const html = await page.text()
    const links = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link = '']) => link)
    assert.ok(links.length >= 4)
    for (const link of links) {
      assert.ok(link.startsWith('/openapi/'), link)
      assert.equal((await fetch(gateway.url + link)).status, 200, link)
    }
    assert.equal((await fetch(`${gateway.url}/openapi/assets/..%2f..%2fpackage.json`)).status, 404)
    assert.equal((await fetch(`${gateway.url}/openapi/assets/package.json`)).status, 404)
  })

  it('names the version of package.json', async () => {
    const { version: published } = JSON.parse(await readFile(new URL('../../../package.json', import.meta.url), 'utf8'))
    assert.equal(version, published)
    assert.equal((await described()).info.version, published)
  })
})

// A server to be measured, in a process of its own: restServer.ts koa BODY | restServer.ts routes COUNT
import Koa from 'koa'
import { z } from 'zod'
import { route } from '../../core/http/route.js'
import { definePlugin } from '../../core/plugin.js'
import { startGateway } from '../support/gateway.js'

const [, , mode, argument = ''] = process.argv

if (mode === 'koa') {
  const koa = new Koa()
  koa.use(ctx => {
    ctx.type = 'application/json; charset=utf-8'
    ctx.body = argument
  })
  const server = koa.listen(0, '127.0.0.1', () => {
    process.stdout.write(`listening on http://127.0.0.1:${String((server.address() as { port: number }).port)}\n`)
  })
} else {
  const many = definePlugin({
    id: 'many-routes',
    setup: ({ routes }) => {
      routes(
        Array.from({ length: Number(argument) }, (_, n) =>
          route({
            method: 'GET',
            path: `/area${String(n % 30)}/thing${String(n)}/:id`,
            access: 'public',
            limit: 'none',
            summary: 'One of many',
            returns: z.object({ id: z.string() }),
            handle: ({ params }) => ({ id: params.id ?? '' }),
          }),
        ),
      )
    },
  })
  const { url } = await startGateway({ plugins: [many], settings: { 'Service:Log:Level': 'error' } })
  process.stdout.write(`listening on ${url}\n`)
}

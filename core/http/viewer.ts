import { createReadStream } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { Context } from 'koa'
import { version } from '../version.js'
import { pageHeaders } from './headers.js'
import type { Route } from './route.js'

const BASE = '/openapi'
const DOCUMENT = `${BASE}/v1/openapi.json`

/** The viewer's own files that the page uses; nothing else of the package is served. */
const assets: Record<string, string> = {
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'favicon-32x32.png': 'image/png',
}

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Agent Gateway API</title>
<link rel="icon" href="${BASE}/assets/favicon-32x32.png">
<link rel="stylesheet" href="${BASE}/assets/swagger-ui.css">
</head>
<body>
<div id="viewer"></div>
<script src="${BASE}/assets/swagger-ui-bundle.js"></script>
<script src="${BASE}/assets/start.js"></script>
</body>
</html>
`

const start = `SwaggerUIBundle({ url: '${DOCUMENT}', dom_id: '#viewer', deepLinking: true, validatorUrl: null, docExpansion: 'none', tryItOutEnabled: true })\n`

/** Serves the API's description as JSON and as a page to read and try, without any other server. Resolves with whether the request was for it. */
export const serveDescription = (routes: () => readonly Route[], tags: ReadonlyMap<string, string>) => {
  let described: { routes: number; json: string } | undefined
  return async (ctx: Context): Promise<boolean> => {
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') return false
    if (ctx.path === DOCUMENT) {
      const all = routes()
      if (described?.routes !== all.length) {
        const { describeApi } = await import('./openapi.js')
        described = { routes: all.length, json: JSON.stringify(describeApi(all, version, tags)) }
      }
      ctx.type = 'application/json; charset=utf-8'
      ctx.body = described.json
      return true
    }
    if (ctx.path === BASE || ctx.path === `${BASE}/`) {
      for (const [name, value] of pageHeaders) ctx.set(name, value)
      ctx.type = 'text/html; charset=utf-8'
      ctx.body = page
      return true
    }
    return serveAsset(ctx)
  }
}

const serveAsset = (ctx: Context): boolean => {
  const name = ctx.path.slice(`${BASE}/assets/`.length)
  if (name === 'start.js') {
    ctx.type = 'text/javascript; charset=utf-8'
    ctx.body = start
    return true
  }
  const type = Object.hasOwn(assets, name) && ctx.path === `${BASE}/assets/${name}` ? assets[name] : undefined
  if (type === undefined) return false
  const directory = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'))
  ctx.set('Cache-Control', 'public, max-age=3600')
  ctx.type = type
  ctx.body = createReadStream(join(directory, name))
  return true
}

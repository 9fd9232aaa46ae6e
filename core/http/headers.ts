import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import helmet from 'helmet'

export type HeaderList = readonly (readonly [name: string, value: string])[]

/** Helmet's headers for an API that is never a page, computed once: they are the same for every answer. */
export const securityHeaders = (options: { https: boolean }): HeaderList => [
  ...collect(
    helmet({
      contentSecurityPolicy: { useDefaults: false, directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] } },
      strictTransportSecurity: options.https,
      // The policy's frame-ancestors says it already.
      xFrameOptions: false,
      // About documents, which none of these answers is.
      crossOriginOpenerPolicy: false,
      referrerPolicy: false,
      originAgentCluster: false,
      xDnsPrefetchControl: false,
      xDownloadOptions: false,
      xPermittedCrossDomainPolicies: false,
      xXssProtection: false,
    }),
  ),
  ['Cache-Control', 'no-store'],
]

/** What the viewer's page needs beside them: its own scripts, styles and images, and calls to this gateway. */
export const pageHeaders: HeaderList = [
  [
    'Content-Security-Policy',
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  ],
]

/** Runs a middleware against an answer that goes nowhere, and takes the headers that it has set. */
const collect = (middleware: (request: IncomingMessage, response: ServerResponse, next: () => void) => void): HeaderList => {
  const request = new IncomingMessage(new Socket())
  const response = new ServerResponse(request)
  middleware(request, response, () => undefined)
  return Object.entries(response.getHeaders()).map(([name, value]) => [name, String(value)] as const)
}

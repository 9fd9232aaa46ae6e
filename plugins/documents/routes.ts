import { z } from 'zod'
import { pageOf, pageQuery } from '../../core/http/page.js'
import { Reply, route, type Route } from '../../core/http/route.js'
import type { DocumentService } from './service.js'

const Document = z
  .object({
    id: z.string(),
    name: z.string(),
    mimeType: z.string().describe('As the client sent it'),
    size: z.number().describe('Bytes'),
    version: z.number(),
    status: z.enum(['extracting', 'ready', 'failed']),
    extractor: z.string().nullable().describe('`builtin:<format>` or the id of a plugin; null before one was found'),
    title: z.string().optional(),
    reason: z.string().optional().describe('Why there is no text, or what it waits for'),
    createdAt: z.string(),
    updatedAt: z.string(),
  })
  .meta({ id: 'Document' })

const DocumentDetail = Document.extend({ text: z.string().nullable().describe('The extracted text, up to 5,000,000 characters') }).meta({
  id: 'DocumentDetail',
})

const byId = z.object({ id: z.string().min(1).max(64) })
const filters = {
  status: z.enum(['extracting', 'ready', 'failed']).optional(),
  extension: z.string().max(40).optional().describe('With or without the dot'),
}

export const documentRoutes = (service: DocumentService): Route[] => [
  route({
    method: 'POST',
    path: '/documents/upload',
    access: 'user',
    limit: 'expensive',
    summary: 'Upload a document; its text is extracted in the background',
    description:
      'A file that nothing reads is stored all the same, with status `failed` and the reason; it is read when a plugin that does is installed.',
    upload: { field: 'file' },
    returns: Document,
    status: 201,
    location: ({ id }) => `/documents/${id}`,
    handle: ({ caller, files: [file] }) => {
      if (!file) throw new Error('an upload without a file passed the form')
      return service.upload(caller, file)
    },
  }),
  route({
    method: 'GET',
    path: '/documents',
    access: 'user',
    limit: 'read',
    summary: 'Your documents, newest first',
    query: z.object({ ...pageQuery, ...filters }),
    returns: pageOf(Document),
    handle: ({ caller, query: { status, extension, limit, cursor } }) => {
      const filter = {
        ...(status === undefined ? {} : { status }),
        ...(extension === undefined ? {} : { extension: `.${extension.replace(/^\./, '').toLowerCase()}` }),
      }
      return service.list(caller, filter, { limit, cursor })
    },
  }),
  route({
    method: 'GET',
    path: '/documents/:id',
    access: 'user',
    limit: 'read',
    summary: 'One document, with its text',
    params: byId,
    returns: DocumentDetail,
    handle: ({ caller, params }) => service.get(caller, params.id),
  }),
  route({
    method: 'GET',
    path: '/documents/:id/download',
    access: 'user',
    limit: 'read',
    summary: 'The file as it was uploaded',
    params: byId,
    produces: ['application/octet-stream'],
    handle: async ({ caller, params }) => {
      const { document, content } = await service.download(caller, params.id)
      return new Reply(200, content, {
        'Content-Type': 'application/octet-stream',
        'Content-Length': String(document.size),
        'Content-Disposition': attachment(document.name),
      })
    },
  }),
  route({
    method: 'DELETE',
    path: '/documents/:id',
    access: 'user',
    limit: 'write',
    summary: 'Delete a document, its text and its versions',
    params: byId,
    handle: ({ caller, params }) => service.remove(caller, params.id),
  }),
]

/** Saved, never shown: someone's HTML must not run under the gateway's address. RFC 6266 with the encoding of RFC 5987. */
const attachment = (name: string): string => {
  const ascii = name.replaceAll(/[^\u0020-\u007e]|["\\%]/g, '_')
  const encoded = encodeURIComponent(name.replaceAll(/\p{Surrogate}/gu, '_')).replaceAll(
    /['()*]/g,
    character => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`
}

import { Readable } from 'node:stream'
import { z } from 'zod'
import { pageOf, pageQuery } from '../../core/http/page.js'
import { Reply, route, type Route } from '../../core/http/route.js'
import { answerWithFile } from './download.js'
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
    title: z.string().optional().describe('As the document says'),
    createdAt: z.string(),
    updatedAt: z.string(),
  })
  .meta({ id: 'Document' })

const DocumentDetail = Document.extend({
  text: z.string().nullable().describe('The extracted text, up to 5,000,000 characters; null before there is one'),
  truncated: z.boolean().optional().describe('The document goes on where the text ends'),
  reason: z.string().optional().describe('Why there is no text, with the status `failed`'),
  waitsFor: z.string().optional().describe('What has to happen first, with the status `extracting`'),
}).meta({ id: 'DocumentDetail' })

/** A text of megabytes goes out in pieces: as one it would hold up everything else. */
const answerWithText = ({ document, text }: Awaited<ReturnType<DocumentService['get']>>): Reply => {
  const { text: none, ...fields } = DocumentDetail.parse({ ...document, text: null })
  const body = text ? Readable.from(jsonWithText(fields, text)) : JSON.stringify({ ...fields, text: none })
  return new Reply(200, body, { 'Content-Type': 'application/json; charset=utf-8' })
}

async function* jsonWithText(fields: object, text: AsyncIterable<string>): AsyncGenerator<string> {
  yield `${JSON.stringify(fields).slice(0, -1)},"text":"`
  for await (const piece of text) yield JSON.stringify(piece).slice(1, -1)
  yield '"}'
}

const byId = z.object({ id: z.string().min(1).max(64) })
const filters = {
  status: z.enum(['extracting', 'ready', 'failed']).optional(),
  extension: z.string().max(40).optional().describe('With or without the dot'),
  name: z.string().min(1).max(255).optional().describe('Part of the file name, in any case'),
  mimeType: z.string().min(1).max(255).optional().describe('The media type, without its parameters'),
}

const inAnyCase = (pattern: string) => ({ $regex: pattern, $options: 'i' })
const literally = (text: string): string => text.replaceAll(/[$()*+.?[\\\]^{|}-]/g, '\\$&')

export const documentRoutes = (service: DocumentService): Route[] => [
  route({
    method: 'POST',
    path: '/documents/upload',
    access: 'user',
    limit: 'expensive',
    summary: 'Upload a document; its text is extracted in the background',
    description:
      'A file that nothing reads is stored all the same, with status `failed` and the reason; it is read when a plugin that does is installed. Without an extension the media type decides, else the content. 413 over the upload limit or your quota of bytes, 409 over your quota of documents, 503 while the disk is full.',
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
    handle: ({ caller, query: { status, extension, name, mimeType, limit, cursor } }) => {
      const filter = {
        ...(status === undefined ? {} : { status }),
        ...(extension === undefined ? {} : { extension: `.${extension.replace(/^\./, '').toLowerCase()}` }),
        ...(name === undefined ? {} : { name: inAnyCase(literally(name)) }),
        ...(mimeType === undefined ? {} : { mimeType: inAnyCase(`^${literally(mimeType)}\\s*(;|$)`) }),
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
    description: 'Ask again while its status is `extracting`.',
    params: byId,
    returns: DocumentDetail,
    handle: async ({ caller, params }) => answerWithText(await service.get(caller, params.id)),
  }),
  route({
    method: 'GET',
    path: '/documents/:id/download',
    access: 'user',
    limit: 'read',
    summary: 'The file as it was uploaded, or a part of it',
    description:
      'With one range of bytes in `Range` (and, in `If-Range`, the `ETag` of an earlier answer), 206 with that part; 416 for a range behind the end. Several ranges are answered with the whole file.',
    params: byId,
    produces: ['application/octet-stream'],
    handle: async ({ caller, params, headers }) => answerWithFile(await service.file(caller, params.id), headers),
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

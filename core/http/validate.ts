import type { z } from 'zod'
import { invalidRequest, validationFailed, type Issue } from '../errors.js'

const MAX_ISSUES = 20

const toIssues = (error: z.ZodError): Issue[] =>
  error.issues.slice(0, MAX_ISSUES).map(({ path, message }) => ({ path: path.map(String).join('.'), message }))

/** A path or query parameter, by its schema; what is wrong with it is `invalid_request`. */
export const validateParameters = (schema: z.ZodType | undefined, values: unknown): unknown => {
  if (!schema) return values
  const result = schema.safeParse(values)
  if (result.success) return result.data
  const issues = toIssues(result.error)
  throw invalidRequest(issues.map(({ path, message }) => `${path}: ${message}`).join('; '), { details: { issues } })
}

/** A JSON body, by its schema: absent is `invalid_request`, wrong is `validation_failed`. Unknown fields are dropped. */
export const validateBody = (schema: z.ZodType, body: unknown): unknown => {
  const result = schema.safeParse(body)
  if (result.success) return result.data
  if (body === undefined) throw invalidRequest('This needs a JSON body: send one with Content-Type: application/json')
  throw validationFailed(toIssues(result.error))
}

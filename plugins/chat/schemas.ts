import { z } from 'zod'
import { MAX_ATTACHMENTS, MAX_MESSAGE_LENGTH } from './contract.js'
import type { TaskRow } from './records.js'

export const Session = z
  .object({
    id: z.string(),
    title: z.string(),
    agentId: z.string(),
    forkedFrom: z.object({ sessionId: z.string(), messageId: z.string().optional() }).optional(),
    createdAt: z.string(),
    updatedAt: z.string(),
  })
  .meta({ id: 'Session' })

export const Message = z
  .object({
    id: z.string(),
    role: z.enum(['user', 'assistant', 'tool', 'system']),
    content: z.string().meta({ description: 'Text; of a tool message the call as JSON: name, parameters, and result or error.' }),
    attachments: z.array(z.string()).optional(),
    taskId: z.string().optional(),
    createdAt: z.string(),
  })
  .meta({ id: 'Message' })

export const Task = z
  .object({
    id: z.string(),
    title: z.string(),
    status: z.enum(['queued', 'running', 'succeeded', 'failed', 'cancelled']),
    sessionId: z.string(),
    agentId: z.string(),
    messageId: z.string(),
    replyMessageId: z.string().optional(),
    error: z.object({ code: z.string(), message: z.string() }).optional(),
    createdAt: z.string(),
    updatedAt: z.string(),
    startedAt: z.string().optional(),
    finishedAt: z.string().optional(),
  })
  .meta({ id: 'Task' })

export const SendMessage = z.object({
  message: z.string().min(1).max(MAX_MESSAGE_LENGTH),
  agentId: z.string().min(1).max(100).optional().meta({ description: "Default: the session's agent, or your first one." }),
  sessionId: z.string().min(1).max(100).optional().meta({ description: 'Default: a new session.' }),
  attachments: z.array(z.string().min(1).max(100)).max(MAX_ATTACHMENTS).optional().meta({ description: 'Document ids.' }),
})

export const Accepted = z.object({ taskId: z.string(), sessionId: z.string(), messageId: z.string() }).meta({ id: 'AcceptedMessage' })

export const statusOf = ({ status }: Pick<TaskRow, 'status'>): z.output<typeof Task>['status'] =>
  status === 'settling' ? 'running' : status

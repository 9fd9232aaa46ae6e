import { GatewayError } from '../../core/errors.js'
import type { ModelMessage, ModelTool } from '../models/contract.js'
import { callTool, commands, isUsable, render, searches, toolOf, type Quote } from './commands.js'

const PREFACE = 'I am offline: no model provider is configured.'
const MAX_QUERY_LENGTH = 1_000
const MAX_ATTACHMENT_QUOTE = 500

/** Words of a question that say nothing of its subject; all of them would match something. */
const fillers = new Set(
  `a about all am an and any are as at be but by can could did do does for from had has have how i if in is it its know me my of on or our
  please say so tell that the their there they this to us was we were what when where which who whom whose why will with would you your`
    .split(/\s+/)
    .filter(Boolean),
)

/** The offline answer to a message: a command's, or quotes from what is stored. Says that it is offline where it matters. */
export const answerOffline = async (message: ModelMessage, tools: readonly ModelTool[]): Promise<string> => {
  const [, name, text = ''] = /^\/(\S*)\s*([\s\S]*)$/.exec(message.content.trim()) ?? []
  return name === undefined ? answerQuestion(message, tools) : answerCommand(name.toLowerCase(), text.trim(), tools)
}

const answerCommand = async (name: string, text: string, tools: readonly ModelTool[]): Promise<string> => {
  if (name === 'help' || name === '') return help(tools)
  const command = commands.find(candidate => candidate.name === name)
  if (!command) return `${PREFACE} I do not know the command /${name}.\n\n${help(tools)}`
  const parameters = command.parameters(text)
  if (!parameters) return `That needs a text: ${command.usage}`
  const tool = toolOf(command, text)
  try {
    const called = await callTool(tools, tool, parameters)
    if (called) return command.answer(called.result, text)
    const orAway = command.takes ? ', or it is not there now' : ''
    return `This agent may not use ${tool}${orAway}: add it to the agent's tools first.`
  } catch (error) {
    return `/${name} did not work: ${errorText(error)}`
  }
}

const help = (tools: readonly ModelTool[]): string => {
  const usable = commands.filter(command => isUsable(command, tools))
  const lines = [{ usage: '/help', help: 'show this' }, ...usable].map(line => `${line.usage} - ${line.help}`)
  return `${PREFACE} I follow these commands, and answer questions by quoting what is remembered and your documents:\n${lines.join('\n')}`
}

const answerQuestion = async ({ content, attachments = [] }: ModelMessage, tools: readonly ModelTool[]): Promise<string> => {
  const query = keywords(content)
  const found: Quote[] = attachments.map(({ name, text }) => ({
    text: text.slice(0, MAX_ATTACHMENT_QUOTE),
    source: `attached document ${name}`,
  }))
  const problems: string[] = []
  for (const { tool, read } of searches) {
    try {
      const called = await callTool(tools, tool, { query, limit: 3 })
      if (called) found.push(...read(called.result))
    } catch (error) {
      problems.push(`(${tool} did not work: ${errorText(error)})`)
    }
  }
  const body =
    found.length > 0
      ? `This is what I have on it:\n\n${render(found)}`
      : 'I found nothing on that in memory or documents. /help shows what I can do.'
  return [`${PREFACE} ${body}`, ...problems].join('\n\n')
}

const keywords = (question: string): string => {
  const words = question.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
  const telling = words.filter(word => !fillers.has(word))
  return (telling.length > 0 ? telling.join(' ') : question).slice(0, MAX_QUERY_LENGTH)
}

/** What a person may read of a tool's error: unexpected ones keep their details to the log. */
const errorText = (error: unknown): string => (error instanceof GatewayError ? error.message : 'an unexpected error')

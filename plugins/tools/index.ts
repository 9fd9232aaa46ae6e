import { z } from 'zod'
import { definePlugin } from '../../core/plugin.js'
import { pageOf, pageOfList, pageQuery } from '../../core/http/page.js'
import { route } from '../../core/http/route.js'
import { tools, type Tool } from './contract.js'
import { ToolSet } from './service.js'
import { timeNow } from './time.js'

const ToolEntry = z
  .object({
    name: z.string(),
    description: z.string(),
    /** JSON Schema of the parameters. */
    parameters: z.record(z.string(), z.unknown()),
  })
  .meta({ id: 'Tool' })

const describe = ({ name, description, parameters }: Tool): z.input<typeof ToolEntry> => ({
  name,
  description,
  parameters: z.toJSONSchema(parameters, { io: 'input' }),
})

export default definePlugin({
  id: 'tools',
  tags: { tools: 'The tools that agents can be allowed to use.' },
  provides: tools,
  setup: ({ routes, onStop }) => {
    const set = new ToolSet()
    onStop(set.register(timeNow))
    routes([
      route({
        method: 'GET',
        path: '/tools',
        access: 'public',
        limit: 'read',
        summary: 'List the tools that agents can be allowed to use',
        query: z.object(pageQuery),
        returns: pageOf(ToolEntry),
        handle: ({ query }) => {
          const page = pageOfList(set.list(), tool => tool.name, query)
          return { ...page, items: page.items.map(describe) }
        },
      }),
    ])
    return set
  },
})

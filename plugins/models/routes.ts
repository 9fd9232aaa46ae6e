import { z } from 'zod'
import { pageOf, pageOfList, pageQuery } from '../../core/http/page.js'
import { route, type Route } from '../../core/http/route.js'
import type { ModelService } from './service.js'

const ModelProviderEntry = z
  .object({
    name: z.string().describe('What an agent names in `model`, before the slash'),
    source: z.enum(['builtin', 'configuration', 'plugin']).describe('`configuration`: one of Service:Models:Providers'),
    pluginId: z.string().optional(),
    models: z
      .array(z.string())
      .describe('What may stand behind the slash, its own default first; empty when it does not say. Others may work too'),
    ready: z.boolean(),
    reason: z.string().optional().describe('Why it is not ready, or what is wrong with it'),
    default: z.boolean().describe('Whether agents without a model of their own are answered by it'),
  })
  .meta({ id: 'ModelProvider' })

export const modelRoutes = (service: ModelService): Route[] => [
  route({
    method: 'GET',
    path: '/models',
    access: 'user',
    limit: 'read',
    summary: 'List the model providers that agents can name',
    description:
      "The built-in provider, those of the configuration and, while Service:Plugins:Experimental is on, plugins of the interface ModelProvider: under their `providerType`, or their id where they have none or another provider has that name. An agent's `model` is `name`, or `name/model`.",
    query: z.object(pageQuery),
    returns: pageOf(ModelProviderEntry),
    handle: async ({ query }) => {
      const page = pageOfList(service.providers, ({ name }) => name, query)
      const answering = service.defaultModel.split('/')[0]?.toLowerCase()
      const items = page.items.map(async provider => ({
        name: provider.name,
        ...(await provider.describe()),
        default: provider.name.toLowerCase() === answering,
      }))
      return { ...page, items: await Promise.all(items) }
    },
  }),
]

import { choice, defineCommand, string, withDefault } from '@agent-gateway/sdk/node'
import { requireDesktop, runTool } from '../execute.js'

/** Shows a notification on the desktop. */
export const notificationShow = defineCommand({
  name: 'notification.show',
  params: {
    title: string({ maxLength: 200 }),
    body: withDefault(string({ minLength: 0, maxLength: 2000 }), ''),
    urgency: withDefault(choice('low', 'normal', 'critical'), 'normal'),
  },
  check: () => requireDesktop('notify-send'),
  run: async ({ title, body, urgency }, { signal }) => {
    const tool = await requireDesktop('notify-send')
    await runTool(tool, ['--urgency', urgency, '--app-name', 'Agent Gateway', '--', title, body], { signal })
    return { title }
  },
})

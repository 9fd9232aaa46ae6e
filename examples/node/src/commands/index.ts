import type { AnyCommand } from '@agent-gateway/sdk/node'
import type { Roots } from '../roots.js'
import { appClose, appLaunch } from './app.js'
import { audioVolume } from './audio.js'
import { browserOpen } from './browser.js'
import { clipboardRead, clipboardWrite } from './clipboard.js'
import { fileCommands } from './file.js'
import { inputClick, inputKey, inputMove, inputType } from './input.js'
import { notificationShow } from './notification.js'
import { screenCapture, screenList } from './screen.js'
import { shellRun } from './shell.js'
import { systemInfo } from './system.js'
import { windowClose, windowFocus, windowList, windowMove } from './window.js'

/** The 22 commands of this node. */
export const platformCommands = (roots: Roots): AnyCommand[] => [
  systemInfo,
  screenCapture,
  screenList,
  windowList,
  windowFocus,
  windowMove,
  windowClose,
  appLaunch,
  appClose,
  inputType,
  inputKey,
  inputMove,
  inputClick,
  clipboardRead,
  clipboardWrite,
  ...fileCommands(roots),
  shellRun,
  notificationShow,
  audioVolume,
  browserOpen,
]

/** Every permission, with what it allows. Feature areas name one of these in their routes' access. */
export const permissions = {
  ManageSettings: 'Change the configuration of the gateway, and make, list and delete backups',
  ManageUsers: 'Create, change and remove users, and end their sessions',
  ManageTenants: 'Create, change and remove tenants',
  ViewAudit: 'Read and export the audit',
  ManagePlugins: 'Start, stop and configure plugins',
  ManageNodes: 'Approve, reject and revoke nodes, set their scopes and rotate their tokens',
  ManageProviders: 'Configure model and voice providers',
  OperateGateway: 'See the health of the gateway, pause, resume and drain it',
  ManageAgents: 'Create, change and remove own agents',
  ManageSessions: 'Chat, and read, fork and remove own chat sessions',
  ManageMemory: 'Read, write and remove own memory',
  ManageDocuments: 'Upload, read and remove own documents',
  ManageChannels: 'Create, change and remove own channels',
  ManageTasks: 'See and cancel own tasks',
  ManageWorkflows: 'Create, run and remove own workflows',
  ManageSkills: 'Install and remove own skills',
  ManageConnections: 'Connect own accounts at other services',
  ManageWebhooks: 'Create, change and remove own webhooks',
  ManageApprovals: 'Decide on actions that wait for own approval',
  ExecuteCommands: 'Send commands to own nodes',
} as const

export type Permission = keyof typeof permissions

export const allPermissions = Object.keys(permissions) as Permission[]

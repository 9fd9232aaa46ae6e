import { defineConfig } from 'eslint/config'
import tseslint from 'typescript-eslint'

/** The import arrows of the house: each room names what it may not reach. */
const forbid = (...patterns) => ({ 'no-restricted-imports': ['error', { patterns }] })
const bare = name => ({ regex: `(^|/)\\.\\./(.*/)?${name}/`, message: `This room may not import ${name}/.` })

export default defineConfig(
  { ignores: ['**/dist/**', '**/publish/**', '**/node_modules/**', 'data/**', 'coverage/**', 'test/fixtures/**'] },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-unnecessary-type-parameters': 'off',
      '@typescript-eslint/no-generated-empty-object-type': 'off',
      '@typescript-eslint/no-unused-vars': ['error', { varsIgnorePattern: '^_', argsIgnorePattern: '^_', ignoreRestSiblings: true }],
      'max-lines': ['warn', { max: 400, skipBlankLines: true, skipComments: true }],
    },
  },
  {
    files: ['core/**/*.ts'],
    ignores: ['core/main.ts'],
    rules: forbid(bare('plugins'), bare('test'), bare('examples'), {
      regex: 'sdk/(?!(protocol|rpc|manifest|secretNames|archiveFormat|archiveNames)\\.js$)',
      message: 'core may import only sdk/protocol, sdk/rpc, sdk/manifest, sdk/secretNames, sdk/archiveFormat and sdk/archiveNames.',
    }),
  },
  {
    files: ['plugins/*/**/*.ts'],
    rules: forbid(bare('test'), bare('examples'), {
      regex: '^(\\.\\./)+(?!core/|sdk/)[A-Za-z-]+/(?!contract\\.js$)',
      message: 'Another plugin is reached through its contract.ts only.',
    }),
  },
  { files: ['sdk/**/*.ts'], rules: forbid(bare('core'), bare('plugins'), bare('test'), bare('examples')) },
  { files: ['examples/**/*.ts'], rules: forbid(bare('core'), bare('plugins'), bare('sdk'), bare('test')) },
  {
    files: ['test/**/*.ts', 'examples/**/test/**/*.ts'],
    rules: {
      '@typescript-eslint/no-floating-promises': 'off',
      // Tests reach into answers of every shape.
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
      '@typescript-eslint/no-non-null-assertion': 'off',
      '@typescript-eslint/no-unused-expressions': 'off',
    },
  },
)

import { TextIndexes, type IndexTask } from './textIndexes.js'
import { answerTasks } from './threadAnswers.js'

const indexes = new TextIndexes()

answerTasks<IndexTask>(task => indexes.run(task))

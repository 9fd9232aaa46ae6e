import { answerTasks } from '../../core/threadAnswers.js'
import { VectorSpaces, type Task } from './vectorSpaces.js'

const spaces = new VectorSpaces()

answerTasks<Task>(task => spaces.run(task))

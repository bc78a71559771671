import { fileURLToPath } from 'node:url';
import {
  type CallExpression,
  type Expression,
  isCallExpression,
  isElementAccessExpression,
  isPropertyAccessExpression,
  isStringLiteral,
  type Node,
  type SourceFile,
} from 'typescript/unstable/ast';
import { API, type Checker, type Project, type Type } from 'typescript/unstable/sync';

export type ProgramName = 'control plane' | 'sidecar' | 'injector' | 'both';

export interface LogLine {
  readonly program: ProgramName;
  readonly levels: readonly string[];
  /** The text, or the expression that makes it at run time. */
  readonly message: { readonly text: string } | { readonly expression: string };
  readonly fields: readonly string[];
}

const root = fileURLToPath(new URL('..', import.meta.url));
const programs: readonly (readonly [folder: string, program: ProgramName])[] = [
  ['control-plane/', 'control plane'],
  ['proxy/', 'sidecar'],
  ['injector/', 'injector'],
  ['shared/', 'both'],
];
const levelNames = ['debug', 'info', 'warn', 'error'];

/**
 * Returns every call to a method of a `Log` in the source of the programs. The type checker
 * finds them.
 */
export function collectLogLines(): readonly LogLine[] {
  const api = new API({ cwd: root });
  try {
    const snapshot = api.updateSnapshot({ openProjects: [`${root}tsconfig.json`] });
    const [project] = snapshot.getProjects();
    if (project === undefined) throw new Error('tsconfig.json could not be opened');
    return programs.flatMap(([folder, program]) =>
      sourcesIn(folder, project)
        .flatMap((file) => linesIn(file, project))
        .map((line) => ({ ...line, program })),
    );
  } finally {
    api.close();
  }
}

function sourcesIn(folder: string, { program }: Project): readonly SourceFile[] {
  return program
    .getSourceFileNames()
    .filter((name) => name.startsWith(`${root}${folder}`))
    .flatMap((name) => program.getSourceFile(name) ?? []);
}

type UnplacedLine = Omit<LogLine, 'program'>;

function linesIn(file: SourceFile, { checker }: Project): readonly UnplacedLine[] {
  const lines: UnplacedLine[] = [];
  const visit = (node: Node): void => {
    if (isCallExpression(node)) {
      const line = lineOf(node, file, checker);
      if (line !== undefined) lines.push(line);
    }
    node.forEachChild(visit);
  };
  visit(file);
  return lines;
}

function lineOf(
  call: CallExpression,
  file: SourceFile,
  checker: Checker,
): UnplacedLine | undefined {
  const [fields, message] = call.arguments;
  if (fields === undefined || message === undefined) return undefined;
  const levels = levelsOf(call.expression, checker);
  if (levels.length === 0) return undefined;
  const text = textOf(message, checker);
  const expression = file.text.slice(message.pos, message.end).trim();
  return {
    levels,
    message: text === undefined ? { expression } : { text },
    fields: fieldsOf(fields, checker),
  };
}

/** The levels of `log.warn` or `log[level]`; none if this is not a method of a `Log`. */
function levelsOf(callee: Expression, checker: Checker): readonly string[] {
  if (isPropertyAccessExpression(callee)) {
    const level = callee.name.text;
    return levelNames.includes(level) && isLog(callee.expression, checker) ? [level] : [];
  }
  if (!isElementAccessExpression(callee) || !isLog(callee.expression, checker)) return [];
  const values = literalsOf(checker.getTypeAtLocation(callee.argumentExpression));
  return levelNames.filter((level) => values.includes(level));
}

function isLog(receiver: Expression, checker: Checker): boolean {
  const type = checker.getTypeAtLocation(receiver);
  return type !== undefined && /\bLog\b/.test(checker.typeToString(type));
}

function textOf(message: Expression, checker: Checker): string | undefined {
  if (isStringLiteral(message)) return message.text;
  return literalsOf(checker.getTypeAtLocation(message))[0];
}

function literalsOf(type: Type | undefined): readonly string[] {
  if (type === undefined) return [];
  if (type.isUnionType()) return (type.getTypes() ?? []).flatMap(literalsOf);
  return type.isLiteralType() ? [String(type.value)] : [];
}

function fieldsOf(fields: Expression, checker: Checker): readonly string[] {
  const type = checker.getTypeAtLocation(fields);
  return type === undefined ? [] : checker.getPropertiesOfType(type).map(({ name }) => name);
}

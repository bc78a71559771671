import { SettingsError } from '../../shared/base/settings.ts';

// Replaces the modules of the embedded mode in the bundle.

export function up(): never {
  refuse('up');
}

export function demo(): never {
  refuse('demo');
}

export function startEmbedded(): never {
  throw new SettingsError(
    'DATABASE_URL is missing: the container image has no embedded database. Set it to the URL of ' +
      'a PostgreSQL server, as in postgresql://user:password@host:5432/name.',
  );
}

function refuse(command: string): never {
  throw new SettingsError(
    `\`sallyport ${command}\` is not available in the container image, which has no embedded ` +
      'database. Start `control-plane` and `sidecar` with PostgreSQL and Redis, or run the ' +
      'command from an installation of the sources.',
  );
}

import { SettingsError } from './settings.ts';

/** Where a server was to listen, and the settings that said so. */
interface ListenAt {
  readonly host: string;
  readonly port: number;
  readonly hostSetting: string;
  readonly portSetting: string;
}

/** Why a server cannot listen, for the operator where it is theirs to mend. */
export function listenError(error: Error & { readonly code?: string }, at: ListenAt): Error {
  const { host, port, hostSetting, portSetting } = at;
  switch (error.code) {
    case 'EADDRINUSE':
      return new SettingsError(
        `Port ${port} on ${host} is in use by another program: stop that one, or set ${portSetting} to another port.`,
      );
    case 'EACCES':
      return new SettingsError(
        `Port ${port} on ${host} may not be opened by this user: set ${portSetting} to one above 1023.`,
      );
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new SettingsError(
        `${host} is no address of this machine: set ${hostSetting} to one that is.`,
      );
    default:
      return error;
  }
}

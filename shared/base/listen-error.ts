import { SettingsError } from './settings.ts';

/** The address a server listens on, and the settings that define it. */
interface ListenAt {
  readonly host: string;
  readonly port: number;
  readonly hostSetting: string;
  readonly portSetting: string;
}

/**
 * Explains why a server cannot listen. The message names the setting that the operator can change.
 */
export function listenError(error: Error & { readonly code?: string }, at: ListenAt): Error {
  const { host, port, hostSetting, portSetting } = at;
  switch (error.code) {
    case 'EADDRINUSE':
      return new SettingsError(
        `Port ${port} on ${host} is in use by another program: stop that program, or set ${portSetting} to another port.`,
      );
    case 'EACCES':
      return new SettingsError(
        `Port ${port} on ${host} cannot be opened by this user: set ${portSetting} to a port above 1023.`,
      );
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new SettingsError(
        `${host} is not an address of this machine: set ${hostSetting} to an address of this machine.`,
      );
    default:
      return error;
  }
}

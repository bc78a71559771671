import type { Command } from '@commander-js/extra-typings';
import { examples, exitWith } from './options.ts';

const load = () => import('../database/admin.ts');

export function declareAdmin(program: Command): void {
  const admin = program
    .command('admin')
    .summary('create tenants and keys, set plans, migrate the database')
    .description(
      'Creates tenants and keys, sets plans and applies migrations. Works on the database, with the settings of a control plane; a control plane may run meanwhile.',
    )
    .usage('<command>')
    .helpCommand(false);

  admin
    .command('create-tenant')
    .summary('create a tenant with its first owner key')
    .description('Creates a tenant and prints its first owner key, once.')
    .argument('<name>', 'name of the tenant')
    .addHelpText('after', examples('sallyport admin create-tenant acme'))
    .action(exitWith(async (name) => (await load()).printNewTenant(name)));

  admin
    .command('create-key')
    .summary('create the key of another person')
    .description(
      'Creates an API key that no other key made, and prints it, once. Keys that one person made count as that person, so create the key of a second decider here.',
    )
    .argument('<tenant>', 'id of the tenant')
    .argument('<role>', 'owner, admin, developer, approver or auditor')
    .argument('<principal>', 'name of the person')
    .addHelpText('after', examples('sallyport admin create-key acme approver ben'))
    .action(
      exitWith(async (tenantId, role, principal) =>
        (await load()).printNewKey({ tenantId, role, principal }),
      ),
    );

  admin
    .command('set-plan')
    .summary('set the plan of a tenant')
    .description(
      'Sets the plan of a tenant: free (5 agents, 10 policies, no integrations), team (100 agents, 500 policies, any number of integrations) or enterprise (no limits; the plan of a new tenant).',
    )
    .argument('<tenant>', 'id of the tenant')
    .argument('<plan>', 'free, team or enterprise')
    .addHelpText('after', examples('sallyport admin set-plan acme team'))
    .action(exitWith(async (tenant, plan) => (await load()).printPlan(tenant, plan)));

  admin
    .command('migrate')
    .summary('apply pending migrations')
    .description(
      'Applies all pending migrations or none, and prints their names. Needs DATABASE_URL only, for the role that owns the tables. A control plane that starts on a database without pending migrations needs no right to change tables.',
    )
    .addHelpText('after', examples('sallyport admin migrate'))
    .action(exitWith(async () => (await import('../database/migrate.ts')).migrateDatabase()));
}

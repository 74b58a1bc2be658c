/** Where a Holdfast with this environment serves operators on this machine. */
export function localUrl() {
  const [adminPort = '', port = ''] = ['ADMIN_PORT', 'PORT'].map((name) => process.env[name]?.trim());
  return `http://127.0.0.1:${adminPort || port || '7878'}`;
}

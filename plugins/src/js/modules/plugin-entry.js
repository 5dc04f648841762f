export function definePluginEntry(entry) {
  return entry;
}
export default definePluginEntry;

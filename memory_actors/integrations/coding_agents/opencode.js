// Written by `memory-actors agent install opencode`, which replaces it; `uninstall` removes it.
import { spawn } from "node:child_process"

const COMMAND = []

// Runs a hook and returns its output. A hook that nobody waits for outlives this process.
const ask = (event, waits) =>
  new Promise((resolve) => {
    const stdio = ["pipe", waits ? "pipe" : "ignore", "ignore"]
    const hook = spawn(COMMAND[0], COMMAND.slice(1), { detached: !waits, stdio, timeout: waits ? 30_000 : 0 })
    let said = ""
    hook.on("error", () => resolve(""))
    hook.stdout?.on("data", (data) => (said += data))
    hook.on("close", () => {
      try {
        resolve(JSON.parse(said).hookSpecificOutput.additionalContext)
      } catch {
        resolve("") // it brings nothing back
      }
    })
    hook.stdin.on("error", () => {})
    hook.stdin.end(JSON.stringify(event))
    if (!waits) {
      hook.unref()
      resolve("")
    }
  })

export const MemoryActors = async ({ directory }) => {
  const started = new Set()
  const event = (name, session_id, more) => ({ hook_event_name: name, session_id, cwd: directory, ...more })
  return {
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const texts = parts.filter((part) => part.type === "text" && !part.synthetic)
      const prompt = texts.map((part) => part.text).join("\n")
      const told = started.has(sessionID) ? "" : await ask(event("session.created", sessionID), true)
      started.add(sessionID)
      const text = [told, await ask(event("chat.message", sessionID, { prompt }), true)].filter(Boolean).join("\n")
      if (text && parts.length) {
        const id = `${parts[parts.length - 1].id}0` // behind the last one
        parts.push({ id, sessionID, messageID: message.id, type: "text", text, synthetic: true })
      }
    },
    event: async ({ event: { type, properties } }) => {
      if (type === "session.idle") await ask(event(type, properties.sessionID), false)
    },
    "experimental.session.compacting": async ({ sessionID }) => {
      await ask(event("experimental.session.compacting", sessionID), true)
    },
  }
}

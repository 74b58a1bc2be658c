# Holdfast without Redis, which runs in another container; see docker-compose.yml.
FROM node:24-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
RUN npm ci --include=dev --no-audit
COPY tsconfig.json nest-cli.json ./
COPY scripts ./scripts
COPY src ./src
COPY lua ./lua
COPY console ./console
RUN npm run build && npm prune --omit=dev --no-audit

FROM node:24-bookworm-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /build/package.json ./
COPY --from=build /build/node_modules ./node_modules
COPY --from=build /build/dist ./dist
# For `npm run verify`, `npm run evidence-keys` and `npm run verify-evidence`.
COPY --from=build /build/scripts ./scripts
# A new volume that is mounted there takes over that any user may write to it.
RUN mkdir -m 1777 archive
USER node
EXPOSE 7878
# Not "localhost", which may resolve to ::1, where nothing listens. Checks readiness, which is red without Redis.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT || 7878}/health/ready`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# The command of `npm start`, without npm: Node must be PID 1 to get SIGTERM.
CMD ["node", "--max-semi-space-size=64", "dist/main.js"]

-- The approval ledger on SQLite, version 1. A plain connection is held to the same rules as ours: nothing here needs a
-- function or a pragma of the program. A refusal begins with `ledger:CODE`, which harness.approval.errors turns into an error.
-- Triggers before an insert look for a row of the same key, since INSERT OR REPLACE would remove that one silently on a
-- connection without recursive_triggers.
PRAGMA foreign_keys = ON;
PRAGMA recursive_triggers = ON;

CREATE TABLE IF NOT EXISTS meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS obligations (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  counterparty  TEXT NOT NULL CHECK (length(trim(counterparty)) > 0),
  platform      TEXT NOT NULL CHECK (length(trim(platform)) > 0),
  workspace     TEXT NOT NULL DEFAULT '',
  channel       TEXT NOT NULL CHECK (length(trim(channel)) > 0),
  thread        TEXT NOT NULL DEFAULT '',
  direction     TEXT NOT NULL CHECK (direction IN ('we_owe_them', 'they_owe_us', 'none')),
  status        TEXT NOT NULL CHECK (status IN ('open', 'drafted', 'approved', 'rejected', 'sent', 'expired', 'closed')),
  summary       TEXT NOT NULL,
  opened_ts     INTEGER NOT NULL,
  last_touch_ts INTEGER NOT NULL,
  epoch         INTEGER NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS one_drafted_obligation_per_destination
  ON obligations (counterparty, platform, workspace, channel, thread) WHERE status = 'drafted';
CREATE INDEX IF NOT EXISTS obligations_by_status ON obligations (status, id);

CREATE TABLE IF NOT EXISTS obligation_drafts (
  obligation_id        INTEGER NOT NULL REFERENCES obligations (id),
  epoch                INTEGER NOT NULL,
  draft_text           TEXT NOT NULL,
  subject              TEXT NOT NULL DEFAULT '',
  context              TEXT NOT NULL DEFAULT '',
  origin_user          TEXT NOT NULL DEFAULT '',
  source_skill         TEXT NOT NULL DEFAULT '',
  priority             TEXT NOT NULL DEFAULT 'P2' CHECK (priority IN ('P0', 'P1', 'P2', 'P3')),
  attachments          TEXT NOT NULL DEFAULT '[]',
  draft_sha256         TEXT NOT NULL,
  digest               TEXT NOT NULL DEFAULT '',
  baseline             TEXT NOT NULL DEFAULT 'off',
  created_ts           INTEGER NOT NULL,
  auto_send_after      INTEGER,
  expires_after        INTEGER,
  looked_ts            INTEGER,
  signal_obligation_id INTEGER REFERENCES obligations (id),
  request_key          TEXT UNIQUE,
  PRIMARY KEY (obligation_id, epoch)
);
CREATE INDEX IF NOT EXISTS drafts_by_signal ON obligation_drafts (signal_obligation_id);

CREATE TABLE IF NOT EXISTS draft_bodies (
  obligation_id INTEGER NOT NULL,
  epoch         INTEGER NOT NULL,
  media_type    TEXT NOT NULL,
  body          TEXT NOT NULL,
  sha256        TEXT NOT NULL,
  PRIMARY KEY (obligation_id, epoch, media_type),
  FOREIGN KEY (obligation_id, epoch) REFERENCES obligation_drafts (obligation_id, epoch)
);

CREATE TABLE IF NOT EXISTS obligation_decisions (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  obligation_id INTEGER NOT NULL REFERENCES obligations (id),
  epoch         INTEGER NOT NULL,
  decision      TEXT NOT NULL CHECK (decision IN ('approve', 'reject')),
  operator      TEXT NOT NULL CHECK (length(trim(operator)) > 0),
  channel       TEXT NOT NULL CHECK (channel IN ('cockpit', 'terminal', 'token', 'auto-ttl', 'import')),
  shown_sha256  TEXT NOT NULL DEFAULT '',
  reason        TEXT,
  decided_ts    INTEGER NOT NULL,
  nonce         TEXT NOT NULL UNIQUE
);
CREATE INDEX IF NOT EXISTS decisions_by_obligation ON obligation_decisions (obligation_id, epoch);

CREATE TABLE IF NOT EXISTS obligation_approval_snapshots (
  decision_id   INTEGER PRIMARY KEY REFERENCES obligation_decisions (id),
  obligation_id INTEGER NOT NULL REFERENCES obligations (id),
  epoch         INTEGER NOT NULL,
  draft_text    TEXT NOT NULL,
  draft_sha256  TEXT NOT NULL,
  subject       TEXT NOT NULL,
  bodies        TEXT NOT NULL,
  attachments   TEXT NOT NULL,
  digest        TEXT NOT NULL,
  counterparty  TEXT NOT NULL,
  platform      TEXT NOT NULL,
  workspace     TEXT NOT NULL,
  channel       TEXT NOT NULL,
  thread        TEXT NOT NULL,
  kind          TEXT NOT NULL CHECK (kind = 'draft_sent'),
  UNIQUE (obligation_id, decision_id)
);

CREATE TABLE IF NOT EXISTS obligation_delivery_claims (
  obligation_id           INTEGER NOT NULL,
  decision_id             INTEGER NOT NULL,
  token                   TEXT NOT NULL UNIQUE CHECK (length(token) > 0),
  state                   TEXT NOT NULL CHECK (state IN ('claimed', 'dispatching', 'unknown', 'delivered', 'cancelled')),
  worker_host             TEXT NOT NULL DEFAULT '',
  worker_pid              INTEGER NOT NULL DEFAULT 0,
  heartbeat_ts            INTEGER NOT NULL DEFAULT 0,
  created_ts              INTEGER NOT NULL CHECK (typeof(created_ts) = 'integer' AND created_ts >= 0),
  updated_ts              INTEGER NOT NULL CHECK (typeof(updated_ts) = 'integer' AND updated_ts >= created_ts),
  reconciliation_evidence TEXT,
  PRIMARY KEY (obligation_id, decision_id),
  FOREIGN KEY (obligation_id, decision_id) REFERENCES obligation_approval_snapshots (obligation_id, decision_id)
);
CREATE UNIQUE INDEX IF NOT EXISTS one_active_claim_per_obligation
  ON obligation_delivery_claims (obligation_id) WHERE state IN ('claimed', 'dispatching', 'unknown');
CREATE INDEX IF NOT EXISTS claims_by_state ON obligation_delivery_claims (state);

CREATE TABLE IF NOT EXISTS obligation_deliveries (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  obligation_id INTEGER NOT NULL REFERENCES obligations (id),
  decision_id   INTEGER NOT NULL REFERENCES obligation_decisions (id),
  kind          TEXT NOT NULL CHECK (kind IN ('draft_sent', 'reject_notice', 'manual_notice')),
  coordinate    TEXT NOT NULL CHECK (length(trim(coordinate)) > 0),
  delivered_ts  INTEGER NOT NULL,
  UNIQUE (obligation_id, decision_id)
);

CREATE TABLE IF NOT EXISTS outbox (
  seq             INTEGER PRIMARY KEY AUTOINCREMENT,
  id              TEXT NOT NULL UNIQUE,
  path            TEXT NOT NULL,
  obligation_id   INTEGER,
  row             TEXT NOT NULL,
  exported_ts     INTEGER,
  exported_commit TEXT
);
CREATE INDEX IF NOT EXISTS outbox_waiting ON outbox (seq) WHERE exported_ts IS NULL;
CREATE INDEX IF NOT EXISTS outbox_by_obligation ON outbox (obligation_id);

CREATE TABLE IF NOT EXISTS freezes (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  frozen_ts   INTEGER NOT NULL,
  frozen_by   TEXT NOT NULL,
  reason      TEXT NOT NULL,
  lifted_ts   INTEGER,
  lifted_by   TEXT
);
CREATE UNIQUE INDEX IF NOT EXISTS one_freeze_at_a_time ON freezes ((lifted_ts IS NULL)) WHERE lifted_ts IS NULL;

-- What an approval would release now: the draft of the current epoch under an approval of that epoch.
CREATE VIEW IF NOT EXISTS approval_current_drafts AS
SELECT d.id AS decision_id, o.id AS obligation_id, o.epoch, t.draft_text, t.draft_sha256, t.subject,
       (SELECT json_group_array(json_array(b.media_type, b.sha256, b.body))
          FROM (SELECT * FROM draft_bodies x WHERE x.obligation_id = o.id AND x.epoch = o.epoch ORDER BY x.media_type) b)
         AS bodies,
       t.attachments, t.digest, o.counterparty, o.platform, o.workspace, o.channel, o.thread
  FROM obligation_decisions d
  JOIN obligations o ON o.id = d.obligation_id AND o.epoch = d.epoch
  JOIN obligation_drafts t ON t.obligation_id = o.id AND t.epoch = o.epoch
 WHERE d.decision = 'approve' AND o.status = 'approved' AND o.direction = 'we_owe_them';

-- A snapshot that still says what an approval would release now.
CREATE VIEW IF NOT EXISTS approval_bound_drafts AS
SELECT s.*
  FROM obligation_approval_snapshots s
  JOIN approval_current_drafts c ON c.decision_id = s.decision_id
 WHERE c.obligation_id = s.obligation_id AND c.epoch = s.epoch AND c.draft_text = s.draft_text
   AND c.draft_sha256 = s.draft_sha256 AND c.subject = s.subject AND c.bodies = s.bodies
   AND c.attachments = s.attachments AND c.digest = s.digest AND c.counterparty = s.counterparty
   AND c.platform = s.platform AND c.workspace = s.workspace AND c.channel = s.channel AND c.thread = s.thread;

-- From an inbound obligation to its answer. Times are seconds since 1970; null where that step has not come.
CREATE VIEW IF NOT EXISTS obligation_sla AS
SELECT i.id AS inbound_id, i.counterparty, i.status AS inbound_status, i.opened_ts AS inbound_ts,
       o.id AS answer_id, o.status AS answer_status, f.first_ts AS drafted_ts, d.decided_ts, r.delivered_ts,
       f.first_ts - i.opened_ts AS to_draft, d.decided_ts - f.first_ts AS to_decision,
       r.delivered_ts - d.decided_ts AS to_delivery, r.delivered_ts - i.opened_ts AS to_answer
  FROM obligations i
  LEFT JOIN (SELECT signal_obligation_id, obligation_id, min(created_ts) AS first_ts
               FROM obligation_drafts WHERE signal_obligation_id IS NOT NULL
              GROUP BY signal_obligation_id, obligation_id) f ON f.signal_obligation_id = i.id
  LEFT JOIN obligations o ON o.id = f.obligation_id
  LEFT JOIN (SELECT obligation_id, max(decided_ts) AS decided_ts FROM obligation_decisions GROUP BY obligation_id) d
         ON d.obligation_id = o.id
  LEFT JOIN obligation_deliveries r ON r.obligation_id = o.id AND r.kind = 'draft_sent'
 WHERE NOT EXISTS (SELECT 1 FROM obligation_drafts x WHERE x.obligation_id = i.id);

-- Decisions, snapshots, receipts and the outbox are written once.
CREATE TRIGGER IF NOT EXISTS obligation_decisions_once BEFORE INSERT ON obligation_decisions
WHEN EXISTS (SELECT 1 FROM obligation_decisions WHERE id = NEW.id OR nonce = NEW.nonce)
BEGIN SELECT RAISE(ABORT, 'ledger:immutable a row of obligation_decisions is written once'); END;
CREATE TRIGGER IF NOT EXISTS obligation_decisions_fixed BEFORE UPDATE ON obligation_decisions
BEGIN SELECT RAISE(ABORT, 'ledger:immutable a row of obligation_decisions does not change'); END;
CREATE TRIGGER IF NOT EXISTS obligation_decisions_kept BEFORE DELETE ON obligation_decisions
BEGIN SELECT RAISE(ABORT, 'ledger:immutable a row of obligation_decisions is never erased'); END;
CREATE TRIGGER IF NOT EXISTS obligation_approval_snapshots_once BEFORE INSERT ON obligation_approval_snapshots
WHEN EXISTS (SELECT 1 FROM obligation_approval_snapshots WHERE decision_id = NEW.decision_id)
BEGIN SELECT RAISE(ABORT, 'ledger:immutable a row of obligation_approval_snapshots is written once'); END;
CREATE TRIGGER IF NOT EXISTS obligation_approval_snapshots_fixed BEFORE UPDATE ON obligation_approval_snapshots
BEGIN SELECT RAISE(ABORT, 'ledger:immutable a row of obligation_approval_snapshots does not change'); END;
CREATE TRIGGER IF NOT EXISTS obligation_approval_snapshots_kept BEFORE DELETE ON obligation_approval_snapshots
BEGIN SELECT RAISE(ABORT, 'ledger:immutable a row of obligation_approval_snapshots is never erased'); END;
CREATE TRIGGER IF NOT EXISTS obligation_deliveries_once BEFORE INSERT ON obligation_deliveries
WHEN EXISTS (SELECT 1 FROM obligation_deliveries WHERE id = NEW.id OR (obligation_id = NEW.obligation_id AND decision_id = NEW.decision_id))
BEGIN SELECT RAISE(ABORT, 'ledger:immutable a row of obligation_deliveries is written once'); END;
CREATE TRIGGER IF NOT EXISTS obligation_deliveries_fixed BEFORE UPDATE ON obligation_deliveries
BEGIN SELECT RAISE(ABORT, 'ledger:immutable a row of obligation_deliveries does not change'); END;
CREATE TRIGGER IF NOT EXISTS obligation_deliveries_kept BEFORE DELETE ON obligation_deliveries
BEGIN SELECT RAISE(ABORT, 'ledger:immutable a row of obligation_deliveries is never erased'); END;
CREATE TRIGGER IF NOT EXISTS outbox_once BEFORE INSERT ON outbox
WHEN EXISTS (SELECT 1 FROM outbox WHERE seq = NEW.seq OR id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'ledger:immutable a row of outbox is written once'); END;
CREATE TRIGGER IF NOT EXISTS outbox_kept BEFORE DELETE ON outbox
BEGIN SELECT RAISE(ABORT, 'ledger:immutable a row of outbox is never erased'); END;
CREATE TRIGGER IF NOT EXISTS freezes_once BEFORE INSERT ON freezes
WHEN EXISTS (SELECT 1 FROM freezes WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'ledger:immutable a row of freezes is written once'); END;
CREATE TRIGGER IF NOT EXISTS freezes_kept BEFORE DELETE ON freezes
BEGIN SELECT RAISE(ABORT, 'ledger:immutable a row of freezes is never erased'); END;
CREATE TRIGGER IF NOT EXISTS outbox_fixed BEFORE UPDATE ON outbox
WHEN NEW.seq IS NOT OLD.seq OR NEW.id IS NOT OLD.id OR NEW.path IS NOT OLD.path OR NEW.row IS NOT OLD.row
  OR NEW.obligation_id IS NOT OLD.obligation_id
BEGIN SELECT RAISE(ABORT, 'ledger:immutable a row of outbox does not change'); END;
CREATE TRIGGER IF NOT EXISTS freezes_fixed BEFORE UPDATE ON freezes
WHEN NEW.id IS NOT OLD.id OR NEW.frozen_ts IS NOT OLD.frozen_ts OR NEW.frozen_by IS NOT OLD.frozen_by
  OR NEW.reason IS NOT OLD.reason OR OLD.lifted_ts IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'ledger:immutable a freeze only ends, once'); END;

-- No child without its parent, also where foreign keys are off.
CREATE TRIGGER IF NOT EXISTS decision_parent BEFORE INSERT ON obligation_decisions
WHEN NOT EXISTS (SELECT 1 FROM obligations WHERE id = NEW.obligation_id)
BEGIN SELECT RAISE(ABORT, 'ledger:not_found there is no such obligation'); END;
CREATE TRIGGER IF NOT EXISTS delivery_parent BEFORE INSERT ON obligation_deliveries
WHEN NOT EXISTS (SELECT 1 FROM obligation_decisions WHERE id = NEW.decision_id AND obligation_id = NEW.obligation_id)
BEGIN SELECT RAISE(ABORT, 'ledger:not_found there is no such decision of this obligation'); END;

-- A snapshot is what the decision approved, to the letter.
CREATE TRIGGER IF NOT EXISTS snapshot_matches BEFORE INSERT ON obligation_approval_snapshots
WHEN NOT EXISTS (
  SELECT 1 FROM approval_current_drafts c
   WHERE c.decision_id = NEW.decision_id AND c.obligation_id = NEW.obligation_id AND c.epoch = NEW.epoch
     AND c.draft_text = NEW.draft_text AND c.draft_sha256 = NEW.draft_sha256 AND c.subject = NEW.subject
     AND c.bodies = NEW.bodies AND c.attachments = NEW.attachments AND c.digest = NEW.digest
     AND c.counterparty = NEW.counterparty AND c.platform = NEW.platform AND c.workspace = NEW.workspace
     AND c.channel = NEW.channel AND c.thread = NEW.thread)
BEGIN SELECT RAISE(ABORT, 'ledger:not_bound a snapshot must match a current approval'); END;

-- A claim needs an unused, bound, unfrozen approval, is never erased, and moves one way.
CREATE TRIGGER IF NOT EXISTS claim_once BEFORE INSERT ON obligation_delivery_claims
WHEN EXISTS (SELECT 1 FROM obligation_delivery_claims
  WHERE token = NEW.token OR (obligation_id = NEW.obligation_id AND decision_id = NEW.decision_id))
BEGIN SELECT RAISE(ABORT, 'ledger:lost_race this decision was claimed before'); END;
CREATE TRIGGER IF NOT EXISTS claim_alone BEFORE INSERT ON obligation_delivery_claims
WHEN EXISTS (SELECT 1 FROM obligation_delivery_claims
  WHERE obligation_id = NEW.obligation_id AND state IN ('claimed','dispatching','unknown'))
BEGIN SELECT RAISE(ABORT, 'ledger:lost_race another claim of this obligation is active'); END;
CREATE TRIGGER IF NOT EXISTS claim_begins BEFORE INSERT ON obligation_delivery_claims
WHEN NEW.state <> 'claimed' OR NEW.reconciliation_evidence IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'ledger:wrong_state a claim begins as claimed'); END;
CREATE TRIGGER IF NOT EXISTS claim_unsent BEFORE INSERT ON obligation_delivery_claims
WHEN EXISTS (SELECT 1 FROM obligation_deliveries
  WHERE obligation_id = NEW.obligation_id AND (kind = 'draft_sent' OR decision_id = NEW.decision_id))
BEGIN SELECT RAISE(ABORT, 'ledger:already_delivered this obligation was delivered'); END;
CREATE TRIGGER IF NOT EXISTS claim_unfrozen BEFORE INSERT ON obligation_delivery_claims
WHEN EXISTS (SELECT 1 FROM freezes WHERE lifted_ts IS NULL)
BEGIN SELECT RAISE(ABORT, 'ledger:frozen sending is frozen'); END;
CREATE TRIGGER IF NOT EXISTS claim_bound BEFORE INSERT ON obligation_delivery_claims
WHEN NOT EXISTS (SELECT 1 FROM approval_bound_drafts
  WHERE obligation_id = NEW.obligation_id AND decision_id = NEW.decision_id)
BEGIN SELECT RAISE(ABORT, 'ledger:not_bound a claim needs a current approval with its snapshot'); END;
CREATE TRIGGER IF NOT EXISTS claim_kept BEFORE DELETE ON obligation_delivery_claims
BEGIN SELECT RAISE(ABORT, 'ledger:immutable a claim is never erased'); END;
CREATE TRIGGER IF NOT EXISTS claim_moves BEFORE UPDATE ON obligation_delivery_claims
BEGIN
  SELECT RAISE(ABORT, 'ledger:immutable the identity of a claim does not change, and its clock does not go back')
   WHERE NEW.obligation_id IS NOT OLD.obligation_id OR NEW.decision_id IS NOT OLD.decision_id
      OR NEW.token IS NOT OLD.token OR NEW.created_ts IS NOT OLD.created_ts OR NEW.updated_ts < OLD.updated_ts;
  SELECT RAISE(ABORT, 'ledger:wrong_state a claim does not move that way')
   WHERE NOT ((OLD.state = 'claimed' AND NEW.state IN ('claimed', 'dispatching', 'cancelled'))
           OR (OLD.state = 'dispatching' AND NEW.state IN ('dispatching', 'unknown', 'delivered'))
           OR (OLD.state = 'unknown' AND NEW.state = 'delivered'));
  SELECT RAISE(ABORT, 'ledger:needs_evidence what is unknown becomes delivered with evidence, and nothing else has any')
   WHERE (OLD.state = 'unknown') <> (length(trim(coalesce(NEW.reconciliation_evidence, ''))) > 0);
  SELECT RAISE(ABORT, 'ledger:not_bound the approval has changed since the claim')
   WHERE OLD.state = 'claimed' AND NEW.state = 'dispatching' AND NOT EXISTS (
     SELECT 1 FROM approval_bound_drafts WHERE obligation_id = NEW.obligation_id AND decision_id = NEW.decision_id);
  SELECT RAISE(ABORT, 'ledger:frozen sending is frozen')
   WHERE OLD.state = 'claimed' AND NEW.state = 'dispatching' AND EXISTS (SELECT 1 FROM freezes WHERE lifted_ts IS NULL);
  SELECT RAISE(ABORT, 'ledger:wrong_state delivered needs the receipt of the same moment')
   WHERE NEW.state = 'delivered' AND NOT EXISTS (
     SELECT 1 FROM obligation_deliveries r
      WHERE r.obligation_id = NEW.obligation_id AND r.decision_id = NEW.decision_id AND r.kind = 'draft_sent'
        AND r.delivered_ts = NEW.updated_ts);
END;

-- A receipt belongs to a claim that was dispatched. An obligation without any claim may have one from elsewhere: it only
-- ever forbids.
CREATE TRIGGER IF NOT EXISTS receipt_dispatched BEFORE INSERT ON obligation_deliveries
WHEN EXISTS (SELECT 1 FROM obligation_delivery_claims WHERE obligation_id = NEW.obligation_id)
 AND (NEW.kind <> 'draft_sent' OR NOT EXISTS (
   SELECT 1 FROM obligation_delivery_claims
    WHERE obligation_id = NEW.obligation_id AND decision_id = NEW.decision_id AND state IN ('dispatching', 'unknown')))
BEGIN SELECT RAISE(ABORT, 'ledger:wrong_state a receipt needs a dispatched claim'); END;

-- An active claim freezes what it was granted on. The one change it allows is the obligation becoming sent with the claim.
CREATE TRIGGER IF NOT EXISTS freeze_obligations_insert BEFORE INSERT ON obligations
WHEN EXISTS (SELECT 1 FROM obligation_delivery_claims
  WHERE obligation_id IN (NEW.id) AND state IN ('claimed','dispatching','unknown'))
BEGIN SELECT RAISE(ABORT, 'ledger:claim_active an active claim holds this obligation'); END;
CREATE TRIGGER IF NOT EXISTS freeze_obligations_update BEFORE UPDATE ON obligations
WHEN EXISTS (SELECT 1 FROM obligation_delivery_claims
  WHERE obligation_id IN (OLD.id, NEW.id) AND state IN ('claimed','dispatching','unknown'))
BEGIN SELECT RAISE(ABORT, 'ledger:claim_active an active claim holds this obligation'); END;
CREATE TRIGGER IF NOT EXISTS freeze_obligations_delete BEFORE DELETE ON obligations
WHEN EXISTS (SELECT 1 FROM obligation_delivery_claims
  WHERE obligation_id IN (OLD.id) AND state IN ('claimed','dispatching','unknown'))
BEGIN SELECT RAISE(ABORT, 'ledger:claim_active an active claim holds this obligation'); END;
CREATE TRIGGER IF NOT EXISTS freeze_obligation_drafts_insert BEFORE INSERT ON obligation_drafts
WHEN EXISTS (SELECT 1 FROM obligation_delivery_claims
  WHERE obligation_id IN (NEW.obligation_id) AND state IN ('claimed','dispatching','unknown'))
BEGIN SELECT RAISE(ABORT, 'ledger:claim_active an active claim holds this obligation'); END;
CREATE TRIGGER IF NOT EXISTS freeze_obligation_drafts_update BEFORE UPDATE ON obligation_drafts
WHEN EXISTS (SELECT 1 FROM obligation_delivery_claims
  WHERE obligation_id IN (OLD.obligation_id, NEW.obligation_id) AND state IN ('claimed','dispatching','unknown'))
BEGIN SELECT RAISE(ABORT, 'ledger:claim_active an active claim holds this obligation'); END;
CREATE TRIGGER IF NOT EXISTS freeze_obligation_drafts_delete BEFORE DELETE ON obligation_drafts
WHEN EXISTS (SELECT 1 FROM obligation_delivery_claims
  WHERE obligation_id IN (OLD.obligation_id) AND state IN ('claimed','dispatching','unknown'))
BEGIN SELECT RAISE(ABORT, 'ledger:claim_active an active claim holds this obligation'); END;
CREATE TRIGGER IF NOT EXISTS freeze_draft_bodies_insert BEFORE INSERT ON draft_bodies
WHEN EXISTS (SELECT 1 FROM obligation_delivery_claims
  WHERE obligation_id IN (NEW.obligation_id) AND state IN ('claimed','dispatching','unknown'))
BEGIN SELECT RAISE(ABORT, 'ledger:claim_active an active claim holds this obligation'); END;
CREATE TRIGGER IF NOT EXISTS freeze_draft_bodies_update BEFORE UPDATE ON draft_bodies
WHEN EXISTS (SELECT 1 FROM obligation_delivery_claims
  WHERE obligation_id IN (OLD.obligation_id, NEW.obligation_id) AND state IN ('claimed','dispatching','unknown'))
BEGIN SELECT RAISE(ABORT, 'ledger:claim_active an active claim holds this obligation'); END;
CREATE TRIGGER IF NOT EXISTS freeze_draft_bodies_delete BEFORE DELETE ON draft_bodies
WHEN EXISTS (SELECT 1 FROM obligation_delivery_claims
  WHERE obligation_id IN (OLD.obligation_id) AND state IN ('claimed','dispatching','unknown'))
BEGIN SELECT RAISE(ABORT, 'ledger:claim_active an active claim holds this obligation'); END;
CREATE TRIGGER IF NOT EXISTS freeze_obligation_decisions_insert BEFORE INSERT ON obligation_decisions
WHEN EXISTS (SELECT 1 FROM obligation_delivery_claims
  WHERE obligation_id IN (NEW.obligation_id) AND state IN ('claimed','dispatching','unknown'))
BEGIN SELECT RAISE(ABORT, 'ledger:claim_active an active claim holds this obligation'); END;

-- History stays: drafts of earlier epochs, and obligations that were decided on.
CREATE TRIGGER IF NOT EXISTS obligation_drafts_past_update BEFORE UPDATE ON obligation_drafts
WHEN EXISTS (SELECT 1 FROM obligations WHERE id = OLD.obligation_id AND epoch > OLD.epoch)
BEGIN SELECT RAISE(ABORT, 'ledger:immutable the draft of an earlier epoch does not change'); END;
CREATE TRIGGER IF NOT EXISTS obligation_drafts_past_delete BEFORE DELETE ON obligation_drafts
WHEN EXISTS (SELECT 1 FROM obligations WHERE id = OLD.obligation_id AND epoch > OLD.epoch)
BEGIN SELECT RAISE(ABORT, 'ledger:immutable the draft of an earlier epoch is kept'); END;
CREATE TRIGGER IF NOT EXISTS draft_bodies_past_update BEFORE UPDATE ON draft_bodies
WHEN EXISTS (SELECT 1 FROM obligations WHERE id = OLD.obligation_id AND epoch > OLD.epoch)
BEGIN SELECT RAISE(ABORT, 'ledger:immutable the draft of an earlier epoch does not change'); END;
CREATE TRIGGER IF NOT EXISTS draft_bodies_past_delete BEFORE DELETE ON draft_bodies
WHEN EXISTS (SELECT 1 FROM obligations WHERE id = OLD.obligation_id AND epoch > OLD.epoch)
BEGIN SELECT RAISE(ABORT, 'ledger:immutable the draft of an earlier epoch is kept'); END;
CREATE TRIGGER IF NOT EXISTS obligation_kept BEFORE DELETE ON obligations
WHEN EXISTS (SELECT 1 FROM obligation_decisions WHERE obligation_id = OLD.id)
BEGIN SELECT RAISE(ABORT, 'ledger:immutable an obligation that was decided on is kept'); END;
CREATE TRIGGER IF NOT EXISTS obligation_replaced BEFORE INSERT ON obligations
WHEN EXISTS (SELECT 1 FROM obligation_decisions WHERE obligation_id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'ledger:immutable an obligation that was decided on is not replaced'); END;
CREATE TRIGGER IF NOT EXISTS obligation_identity BEFORE UPDATE ON obligations
WHEN NEW.id IS NOT OLD.id OR NEW.epoch < OLD.epoch
BEGIN SELECT RAISE(ABORT, 'ledger:immutable an obligation keeps its id, and its epoch only grows'); END;
CREATE TRIGGER IF NOT EXISTS draft_identity BEFORE UPDATE ON obligation_drafts
WHEN NEW.obligation_id IS NOT OLD.obligation_id OR NEW.epoch IS NOT OLD.epoch
BEGIN SELECT RAISE(ABORT, 'ledger:immutable a draft keeps its obligation and epoch'); END;

INSERT OR IGNORE INTO meta (key, value) VALUES ('version', '1');

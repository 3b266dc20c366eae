-- The tables of the published SQLite reference, in their column order, as views over a ledger of ours. They live in the
-- connection (TEMP), where their names come before those of our own tables; the ones beneath are kept in the file, because a
-- trigger can't name a table of another schema. Everything written through them meets the guards of our tables.
CREATE VIEW IF NOT EXISTS reference_obligations AS
SELECT id, counterparty, platform AS source, channel, direction, status, summary, opened_ts, last_touch_ts, epoch AS updated_at
  FROM obligations;
CREATE TRIGGER IF NOT EXISTS reference_obligations_insert INSTEAD OF INSERT ON reference_obligations
BEGIN
  INSERT INTO obligations (id, counterparty, platform, channel, direction, status, summary, opened_ts, last_touch_ts, epoch)
  VALUES (NEW.id, NEW.counterparty, NEW.source, NEW.channel, NEW.direction, NEW.status, NEW.summary, NEW.opened_ts,
          NEW.last_touch_ts, NEW.updated_at);
END;
CREATE TRIGGER IF NOT EXISTS reference_obligations_update INSTEAD OF UPDATE ON reference_obligations
BEGIN
  UPDATE obligations SET id = NEW.id, counterparty = NEW.counterparty, platform = NEW.source, channel = NEW.channel,
         direction = NEW.direction, status = NEW.status, summary = NEW.summary, opened_ts = NEW.opened_ts,
         last_touch_ts = NEW.last_touch_ts, epoch = NEW.updated_at
   WHERE id = OLD.id;
END;
CREATE TRIGGER IF NOT EXISTS reference_obligations_delete INSTEAD OF DELETE ON reference_obligations
BEGIN
  DELETE FROM obligations WHERE id = OLD.id;
END;

-- One draft an obligation, the newest: the reference replaces it, ours keeps every epoch.
CREATE VIEW IF NOT EXISTS reference_obligation_drafts AS
SELECT t.obligation_id, t.draft_text, nullif(t.context, '') AS context, o.platform AS origin_platform, o.channel AS origin_channel,
       nullif(o.thread, '') AS origin_thread, nullif(t.origin_user, '') AS origin_user, t.priority, t.draft_sha256, t.created_ts,
       t.epoch AS updated_ts, t.auto_send_after, t.signal_obligation_id
  FROM obligation_drafts t JOIN obligations o ON o.id = t.obligation_id
 WHERE t.epoch = (SELECT max(x.epoch) FROM obligation_drafts x WHERE x.obligation_id = t.obligation_id);
CREATE TRIGGER IF NOT EXISTS reference_drafts_insert INSTEAD OF INSERT ON reference_obligation_drafts
BEGIN
  UPDATE obligations SET platform = NEW.origin_platform, channel = NEW.origin_channel, thread = coalesce(NEW.origin_thread, '')
   WHERE id = NEW.obligation_id;
  INSERT INTO obligation_drafts (obligation_id, epoch, draft_text, context, origin_user, priority, draft_sha256, created_ts,
                                 auto_send_after, signal_obligation_id)
  VALUES (NEW.obligation_id, NEW.updated_ts, NEW.draft_text, coalesce(NEW.context, ''), coalesce(NEW.origin_user, ''),
          coalesce(NEW.priority, 'P2'), NEW.draft_sha256, NEW.created_ts, NEW.auto_send_after, NEW.signal_obligation_id);
END;
CREATE TRIGGER IF NOT EXISTS reference_drafts_update INSTEAD OF UPDATE ON reference_obligation_drafts
WHEN NEW.updated_ts = OLD.updated_ts
BEGIN
  UPDATE obligations SET platform = NEW.origin_platform, channel = NEW.origin_channel, thread = coalesce(NEW.origin_thread, '')
   WHERE id = OLD.obligation_id
     AND (platform, channel, thread) <> (NEW.origin_platform, NEW.origin_channel, coalesce(NEW.origin_thread, ''));
  UPDATE obligation_drafts SET obligation_id = NEW.obligation_id, draft_text = NEW.draft_text, context = coalesce(NEW.context, ''),
         origin_user = coalesce(NEW.origin_user, ''), priority = NEW.priority, draft_sha256 = NEW.draft_sha256,
         created_ts = NEW.created_ts, auto_send_after = NEW.auto_send_after, signal_obligation_id = NEW.signal_obligation_id
   WHERE obligation_id = OLD.obligation_id AND epoch = OLD.updated_ts;
END;
CREATE TRIGGER IF NOT EXISTS reference_drafts_refile INSTEAD OF UPDATE ON reference_obligation_drafts
WHEN NEW.updated_ts <> OLD.updated_ts
BEGIN
  UPDATE obligations SET platform = NEW.origin_platform, channel = NEW.origin_channel, thread = coalesce(NEW.origin_thread, '')
   WHERE id = OLD.obligation_id
     AND (platform, channel, thread) <> (NEW.origin_platform, NEW.origin_channel, coalesce(NEW.origin_thread, ''));
  INSERT INTO obligation_drafts (obligation_id, epoch, draft_text, context, origin_user, priority, draft_sha256, created_ts,
                                 auto_send_after, signal_obligation_id)
  VALUES (NEW.obligation_id, NEW.updated_ts, NEW.draft_text, coalesce(NEW.context, ''), coalesce(NEW.origin_user, ''),
          NEW.priority, NEW.draft_sha256, NEW.created_ts, NEW.auto_send_after, NEW.signal_obligation_id);
END;
CREATE TRIGGER IF NOT EXISTS reference_drafts_delete INSTEAD OF DELETE ON reference_obligation_drafts
BEGIN
  DELETE FROM obligation_drafts WHERE obligation_id = OLD.obligation_id AND epoch = OLD.updated_ts;
END;

CREATE VIEW IF NOT EXISTS reference_obligation_decisions AS
SELECT id, obligation_id, decision, operator, decided_ts, nonce, epoch AS draft_updated_ts FROM obligation_decisions;
CREATE TRIGGER IF NOT EXISTS reference_decisions_insert INSTEAD OF INSERT ON reference_obligation_decisions
BEGIN
  INSERT INTO obligation_decisions (id, obligation_id, epoch, decision, operator, channel, decided_ts, nonce)
  VALUES (NEW.id, NEW.obligation_id, NEW.draft_updated_ts, NEW.decision, NEW.operator, 'import', NEW.decided_ts, NEW.nonce);
END;
CREATE TRIGGER IF NOT EXISTS reference_decisions_update INSTEAD OF UPDATE ON reference_obligation_decisions
BEGIN
  UPDATE obligation_decisions SET decision = NEW.decision WHERE id = OLD.id;
END;
CREATE TRIGGER IF NOT EXISTS reference_decisions_delete INSTEAD OF DELETE ON reference_obligation_decisions
BEGIN
  DELETE FROM obligation_decisions WHERE id = OLD.id;
END;

CREATE VIEW IF NOT EXISTS reference_obligation_deliveries AS
SELECT id, obligation_id, decision_id, kind, coordinate, delivered_ts FROM obligation_deliveries;
CREATE TRIGGER IF NOT EXISTS reference_deliveries_insert INSTEAD OF INSERT ON reference_obligation_deliveries
BEGIN
  INSERT INTO obligation_deliveries (id, obligation_id, decision_id, kind, coordinate, delivered_ts)
  VALUES (NEW.id, NEW.obligation_id, NEW.decision_id, NEW.kind, NEW.coordinate, NEW.delivered_ts);
END;
CREATE TRIGGER IF NOT EXISTS reference_deliveries_update INSTEAD OF UPDATE ON reference_obligation_deliveries
BEGIN
  UPDATE obligation_deliveries SET coordinate = NEW.coordinate WHERE id = OLD.id;
END;
CREATE TRIGGER IF NOT EXISTS reference_deliveries_delete INSTEAD OF DELETE ON reference_obligation_deliveries
BEGIN
  DELETE FROM obligation_deliveries WHERE id = OLD.id;
END;

CREATE VIEW IF NOT EXISTS reference_approval_snapshots AS
SELECT decision_id, obligation_id, epoch AS draft_epoch, draft_text, draft_sha256, platform AS origin_platform,
       channel AS origin_channel, nullif(thread, '') AS origin_thread, kind
  FROM obligation_approval_snapshots;
-- What the columns of the reference don't name (bodies, subject, digest) is taken from the draft that was approved; what they
-- do name must be what it says.
CREATE TRIGGER IF NOT EXISTS reference_snapshots_insert INSTEAD OF INSERT ON reference_approval_snapshots
BEGIN
  SELECT RAISE(ABORT, 'ledger:not_bound a snapshot must match a current approval')
   WHERE NOT EXISTS (
     SELECT 1 FROM approval_current_drafts c
      WHERE c.decision_id = NEW.decision_id AND c.obligation_id = NEW.obligation_id AND c.epoch = NEW.draft_epoch
        AND c.draft_text = NEW.draft_text AND c.draft_sha256 = NEW.draft_sha256 AND c.platform = NEW.origin_platform
        AND c.channel = NEW.origin_channel AND c.thread = coalesce(NEW.origin_thread, ''));
  INSERT INTO obligation_approval_snapshots (decision_id, obligation_id, epoch, draft_text, draft_sha256, subject, bodies,
         attachments, digest, counterparty, platform, workspace, channel, thread, kind)
  SELECT decision_id, obligation_id, epoch, draft_text, draft_sha256, subject, bodies, attachments, digest, counterparty,
         platform, workspace, channel, thread, NEW.kind
    FROM approval_current_drafts WHERE decision_id = NEW.decision_id;
END;
CREATE TRIGGER IF NOT EXISTS reference_snapshots_update INSTEAD OF UPDATE ON reference_approval_snapshots
BEGIN
  UPDATE obligation_approval_snapshots SET draft_text = NEW.draft_text WHERE decision_id = OLD.decision_id;
END;
CREATE TRIGGER IF NOT EXISTS reference_snapshots_delete INSTEAD OF DELETE ON reference_approval_snapshots
BEGIN
  DELETE FROM obligation_approval_snapshots WHERE decision_id = OLD.decision_id;
END;

CREATE VIEW IF NOT EXISTS reference_delivery_claims AS
SELECT obligation_id, decision_id, token, state, created_ts, updated_ts, reconciliation_evidence FROM obligation_delivery_claims;
CREATE TRIGGER IF NOT EXISTS reference_claims_insert INSTEAD OF INSERT ON reference_delivery_claims
BEGIN
  INSERT INTO obligation_delivery_claims (obligation_id, decision_id, token, state, created_ts, updated_ts, reconciliation_evidence)
  VALUES (NEW.obligation_id, NEW.decision_id, NEW.token, NEW.state, NEW.created_ts, NEW.updated_ts, NEW.reconciliation_evidence);
END;
CREATE TRIGGER IF NOT EXISTS reference_claims_update INSTEAD OF UPDATE ON reference_delivery_claims
BEGIN
  UPDATE obligation_delivery_claims SET obligation_id = NEW.obligation_id, decision_id = NEW.decision_id, token = NEW.token,
         state = NEW.state, created_ts = NEW.created_ts, updated_ts = NEW.updated_ts,
         reconciliation_evidence = NEW.reconciliation_evidence
   WHERE token = OLD.token;
END;
CREATE TRIGGER IF NOT EXISTS reference_claims_delete INSTEAD OF DELETE ON reference_delivery_claims
BEGIN
  DELETE FROM obligation_delivery_claims WHERE token = OLD.token;
END;

-- The names of the reference, for this connection.
CREATE TEMP VIEW IF NOT EXISTS obligations AS SELECT * FROM main.reference_obligations;
CREATE TEMP TRIGGER IF NOT EXISTS as_obligations_insert INSTEAD OF INSERT ON temp.obligations
BEGIN
  INSERT INTO reference_obligations VALUES (NEW.id, NEW.counterparty, NEW.source, NEW.channel, NEW.direction,
    NEW.status, NEW.summary, NEW.opened_ts, NEW.last_touch_ts, NEW.updated_at);
END;
CREATE TEMP TRIGGER IF NOT EXISTS as_obligations_update INSTEAD OF UPDATE ON temp.obligations
BEGIN
  UPDATE reference_obligations SET id = NEW.id, counterparty = NEW.counterparty, source = NEW.source, channel =
    NEW.channel, direction = NEW.direction, status = NEW.status, summary = NEW.summary, opened_ts = NEW.opened_ts,
    last_touch_ts = NEW.last_touch_ts, updated_at = NEW.updated_at
   WHERE id = OLD.id;
END;
CREATE TEMP TRIGGER IF NOT EXISTS as_obligations_delete INSTEAD OF DELETE ON temp.obligations
BEGIN
  DELETE FROM reference_obligations WHERE id = OLD.id;
END;
CREATE TEMP VIEW IF NOT EXISTS obligation_drafts AS SELECT * FROM main.reference_obligation_drafts;
CREATE TEMP TRIGGER IF NOT EXISTS as_obligation_drafts_insert INSTEAD OF INSERT ON temp.obligation_drafts
BEGIN
  INSERT INTO reference_obligation_drafts VALUES (NEW.obligation_id, NEW.draft_text, NEW.context, NEW.origin_platform,
    NEW.origin_channel, NEW.origin_thread, NEW.origin_user, NEW.priority, NEW.draft_sha256, NEW.created_ts,
    NEW.updated_ts, NEW.auto_send_after, NEW.signal_obligation_id);
END;
CREATE TEMP TRIGGER IF NOT EXISTS as_obligation_drafts_update INSTEAD OF UPDATE ON temp.obligation_drafts
BEGIN
  UPDATE reference_obligation_drafts SET obligation_id = NEW.obligation_id, draft_text = NEW.draft_text, context =
    NEW.context, origin_platform = NEW.origin_platform, origin_channel = NEW.origin_channel, origin_thread =
    NEW.origin_thread, origin_user = NEW.origin_user, priority = NEW.priority, draft_sha256 = NEW.draft_sha256,
    created_ts = NEW.created_ts, updated_ts = NEW.updated_ts, auto_send_after = NEW.auto_send_after,
    signal_obligation_id = NEW.signal_obligation_id
   WHERE obligation_id = OLD.obligation_id;
END;
CREATE TEMP TRIGGER IF NOT EXISTS as_obligation_drafts_delete INSTEAD OF DELETE ON temp.obligation_drafts
BEGIN
  DELETE FROM reference_obligation_drafts WHERE obligation_id = OLD.obligation_id;
END;
CREATE TEMP VIEW IF NOT EXISTS obligation_decisions AS SELECT * FROM main.reference_obligation_decisions;
CREATE TEMP TRIGGER IF NOT EXISTS as_obligation_decisions_insert INSTEAD OF INSERT ON temp.obligation_decisions
BEGIN
  INSERT INTO reference_obligation_decisions VALUES (NEW.id, NEW.obligation_id, NEW.decision, NEW.operator,
    NEW.decided_ts, NEW.nonce, NEW.draft_updated_ts);
END;
CREATE TEMP TRIGGER IF NOT EXISTS as_obligation_decisions_update INSTEAD OF UPDATE ON temp.obligation_decisions
BEGIN
  UPDATE reference_obligation_decisions SET id = NEW.id, obligation_id = NEW.obligation_id, decision = NEW.decision,
    operator = NEW.operator, decided_ts = NEW.decided_ts, nonce = NEW.nonce, draft_updated_ts = NEW.draft_updated_ts
   WHERE id = OLD.id;
END;
CREATE TEMP TRIGGER IF NOT EXISTS as_obligation_decisions_delete INSTEAD OF DELETE ON temp.obligation_decisions
BEGIN
  DELETE FROM reference_obligation_decisions WHERE id = OLD.id;
END;
CREATE TEMP VIEW IF NOT EXISTS obligation_deliveries AS SELECT * FROM main.reference_obligation_deliveries;
CREATE TEMP TRIGGER IF NOT EXISTS as_obligation_deliveries_insert INSTEAD OF INSERT ON temp.obligation_deliveries
BEGIN
  INSERT INTO reference_obligation_deliveries VALUES (NEW.id, NEW.obligation_id, NEW.decision_id, NEW.kind,
    NEW.coordinate, NEW.delivered_ts);
END;
CREATE TEMP TRIGGER IF NOT EXISTS as_obligation_deliveries_update INSTEAD OF UPDATE ON temp.obligation_deliveries
BEGIN
  UPDATE reference_obligation_deliveries SET id = NEW.id, obligation_id = NEW.obligation_id, decision_id =
    NEW.decision_id, kind = NEW.kind, coordinate = NEW.coordinate, delivered_ts = NEW.delivered_ts
   WHERE id = OLD.id;
END;
CREATE TEMP TRIGGER IF NOT EXISTS as_obligation_deliveries_delete INSTEAD OF DELETE ON temp.obligation_deliveries
BEGIN
  DELETE FROM reference_obligation_deliveries WHERE id = OLD.id;
END;
CREATE TEMP VIEW IF NOT EXISTS obligation_approval_snapshots AS SELECT * FROM main.reference_approval_snapshots;
CREATE TEMP TRIGGER IF NOT EXISTS as_obligation_approval_snapshots_insert INSTEAD OF INSERT ON temp.obligation_approval_snapshots
BEGIN
  INSERT INTO reference_approval_snapshots VALUES (NEW.decision_id, NEW.obligation_id, NEW.draft_epoch,
    NEW.draft_text, NEW.draft_sha256, NEW.origin_platform, NEW.origin_channel, NEW.origin_thread, NEW.kind);
END;
CREATE TEMP TRIGGER IF NOT EXISTS as_obligation_approval_snapshots_update INSTEAD OF UPDATE ON temp.obligation_approval_snapshots
BEGIN
  UPDATE reference_approval_snapshots SET decision_id = NEW.decision_id, obligation_id = NEW.obligation_id,
    draft_epoch = NEW.draft_epoch, draft_text = NEW.draft_text, draft_sha256 = NEW.draft_sha256, origin_platform =
    NEW.origin_platform, origin_channel = NEW.origin_channel, origin_thread = NEW.origin_thread, kind = NEW.kind
   WHERE decision_id = OLD.decision_id;
END;
CREATE TEMP TRIGGER IF NOT EXISTS as_obligation_approval_snapshots_delete INSTEAD OF DELETE ON temp.obligation_approval_snapshots
BEGIN
  DELETE FROM reference_approval_snapshots WHERE decision_id = OLD.decision_id;
END;
CREATE TEMP VIEW IF NOT EXISTS obligation_delivery_claims AS SELECT * FROM main.reference_delivery_claims;
CREATE TEMP TRIGGER IF NOT EXISTS as_obligation_delivery_claims_insert INSTEAD OF INSERT ON temp.obligation_delivery_claims
BEGIN
  INSERT INTO reference_delivery_claims VALUES (NEW.obligation_id, NEW.decision_id, NEW.token, NEW.state,
    NEW.created_ts, NEW.updated_ts, NEW.reconciliation_evidence);
END;
CREATE TEMP TRIGGER IF NOT EXISTS as_obligation_delivery_claims_update INSTEAD OF UPDATE ON temp.obligation_delivery_claims
BEGIN
  UPDATE reference_delivery_claims SET obligation_id = NEW.obligation_id, decision_id = NEW.decision_id, token =
    NEW.token, state = NEW.state, created_ts = NEW.created_ts, updated_ts = NEW.updated_ts, reconciliation_evidence =
    NEW.reconciliation_evidence
   WHERE token = OLD.token;
END;
CREATE TEMP TRIGGER IF NOT EXISTS as_obligation_delivery_claims_delete INSTEAD OF DELETE ON temp.obligation_delivery_claims
BEGIN
  DELETE FROM reference_delivery_claims WHERE token = OLD.token;
END;
